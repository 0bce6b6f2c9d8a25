//! Forgetting an image.

use super::find::find;
use crate::app::App;
use berth_core::Result;
use berth_image::ImageIndex;

/// Removes the image with all its names, by any of them. A missing one is a success; containers made from it go on,
/// and its layers stay as long as one of them does.
///
/// # Errors
/// The store cannot be written.
pub async fn remove(app: &App, name: &str) -> Result<()> {
    let (store, name) = (app.store.clone(), name.to_owned());
    let removed = app.blocking.run("remove an image", move || -> Result<bool> {
        let Some(image) = find(&store, &name)? else { return Ok(false) };
        store.remove_image(&image.id)
    });
    if removed.await?? {
        // The space is given back behind the caller's back: the image is gone already, and removing trees takes time.
        app.puller.collect_soon();
    }
    Ok(())
}
