//! One image by any of its names.

use super::find::find;
use crate::app::App;
use crate::blocking::Room;
use berth_core::Result;
use berth_image::ImageRecord;

/// The image, or nothing: a missing image is no error.
///
/// # Errors
/// The store cannot be read.
pub async fn status(app: &App, name: &str) -> Result<Option<ImageRecord>> {
    let (store, name) = (app.store.clone(), name.to_owned());
    app.blocking.run_in(Room::Look, "look up an image", move || find(&store, &name)).await?
}
