//! From a reference to an image in the store.

use crate::app::App;
use berth_core::Result;
use berth_core::fault::Point;
use berth_image::{Event, Progress, PullRequest, Reference, RegistryAuth};

berth_core::fault_points! {
    BEGUN = "pull.begun", "before anything of an image is fetched";
    RESOLVED = "pull.resolved", "an image's manifest is known and nothing else is fetched";
    APPLIED = "pull.applied", "a layer is unpacked and has no record yet";
    SYNCING = "pull.syncing", "all layers are there, not yet synced, and the image has no record";
    RECORDED = "pull.recorded", "an image has its record and the caller has no answer";
}

/// Pulls and gives the image's id. If the caller goes away the pull ends, unless others wait for the same.
///
/// # Errors
/// A bad reference, an unreachable registry, refused credentials, damaged or hostile content.
pub async fn pull(app: &App, name: &str, auth: RegistryAuth) -> Result<String> {
    BEGUN.pass()?;
    let mut request = PullRequest { auth, ..PullRequest::new(Reference::parse(name)?) };
    let cancel = request.cancel.clone();
    request.progress = progress(name, move || cancel.cancel());
    let pulled = app.puller.pull(request).await?;
    RECORDED.pass()?;
    tracing::info!(image = name, id = %pulled.id, bytes = pulled.size, "pulled");
    Ok(pulled.id.to_string())
}

/// What an administrator wants to see of a pull that takes long.
fn progress(name: &str, give_up: impl Fn() + Send + Sync + 'static) -> Progress {
    let image = name.to_owned();
    let point = move |point: &Point| {
        if point.pass().is_err() {
            give_up();
        }
    };
    Progress::new(move |event| match event {
        Event::Resolved { digest, endpoint } => {
            tracing::debug!(image, %digest, endpoint, "resolved");
            point(&RESOLVED);
        }
        Event::Retry { layer, reason } => tracing::warn!(image, layer, reason, "trying again"),
        Event::Applied { layer, bytes } => {
            tracing::debug!(image, layer, bytes, "layer applied");
            point(&APPLIED);
        }
        Event::Syncing => point(&SYNCING),
        _ => {}
    })
}
