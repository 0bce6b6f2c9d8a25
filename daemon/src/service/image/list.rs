//! Which images are here.

use super::find::find;
use crate::app::App;
use crate::blocking::Room;
use berth_core::Result;
use berth_image::{ImageIndex, ImageRecord};

/// Every image by id, or only the one that `wanted` names.
///
/// # Errors
/// The store cannot be read.
pub async fn list(app: &App, wanted: &str) -> Result<Vec<ImageRecord>> {
    let (store, wanted) = (app.store.clone(), wanted.to_owned());
    let found = app.blocking.run_in(Room::Look, "list images", move || match wanted.as_str() {
        "" => store.images(),
        name => Ok(find(&store, name)?.into_iter().collect()),
    });
    let mut images = found.await??;
    images.sort_by_cached_key(|image| image.id.to_string());
    Ok(images)
}
