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
    let (store, puller, name) = (app.store.clone(), app.puller.clone(), name.to_owned());
    let removed = app.blocking.run("remove an image", move || -> Result<bool> {
        let Some(image) = find(&store, &name)? else { return Ok(false) };
        store.remove_image(&image.id)
    });
    if removed.await?? {
        collect(app, puller);
    }
    Ok(())
}

/// The space is given back behind the caller's back: the image is gone already, and removing trees takes time.
fn collect(app: &App, puller: berth_image::Puller) {
    let blocking = app.blocking.clone();
    tokio::spawn(async move {
        match blocking.run("remove layers", move || puller.collect_garbage()).await {
            Ok(Ok(layers)) if !layers.is_empty() => tracing::info!(layers = layers.len(), "removed layers"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "layers could not be removed, the next removal tries again")
            }
            _ => {}
        }
    });
}
