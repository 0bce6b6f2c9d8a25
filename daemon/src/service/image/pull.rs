//! From a reference to an image in the store.

use crate::app::App;
use berth_core::Result;
use berth_image::{Event, Platform, Progress, PullRequest, Reference, RegistryAuth};

/// Pulls and gives the image's id. If the caller goes away the pull ends, unless others wait for the same.
///
/// # Errors
/// A bad reference, an unreachable registry, refused credentials, damaged or hostile content.
pub async fn pull(app: &App, name: &str, auth: RegistryAuth) -> Result<String> {
    let request = PullRequest {
        reference: Reference::parse(name)?,
        auth,
        platform: Platform::host(),
        progress: progress(name),
        cancel: Default::default(),
    };
    let pulled = app.puller.pull(request).await?;
    tracing::info!(image = name, id = %pulled.id, bytes = pulled.size, "pulled");
    Ok(pulled.id.to_string())
}

/// What an administrator wants to see of a pull that takes long.
fn progress(name: &str) -> Progress {
    let image = name.to_owned();
    Progress::new(move |event| match event {
        Event::Resolved { digest, endpoint } => tracing::debug!(image, %digest, endpoint, "resolved"),
        Event::Retry { layer, reason } => tracing::warn!(image, layer, reason, "trying again"),
        Event::Applied { layer, bytes } => tracing::debug!(image, layer, bytes, "layer applied"),
        _ => {}
    })
}
