//! Ending shims: asked first, killed if they do not go.

use super::{Found, Shim, find};
use crate::pod::{Error, PodPaths};
use berth_core::SandboxId;
use berth_proto::shim::ShutdownRequest;
use std::time::Duration;

/// How long a shim may take to end once it has said that it will.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Ends whatever shim a sandbox has, and waits for its end. None is as good.
///
/// # Errors
/// It lives on, or somebody listens whose process is not known.
pub(crate) async fn end_at(paths: &PodPaths, id: SandboxId, pid: Option<u32>) -> Result<(), Error> {
    match find(paths, id, pid).await {
        Found::Nobody => Ok(()),
        Found::Shim(shim) => end(&shim, id).await,
        Found::Mute { process: Some(process), why, .. } => {
            tracing::warn!(sandbox = %id, %why, "a shim that does not answer is killed");
            process.kill_and_wait(id).await
        }
        Found::Mute { process: None, why, .. } => Err(why),
    }
}

/// Ends a shim: asks it first, kills it if it does not go.
///
/// # Errors
/// It lives on.
pub(crate) async fn end(shim: &Shim, id: SandboxId) -> Result<(), Error> {
    let asked = shim.shutdown(&ShutdownRequest {}).await;
    let Some(process) = shim.process() else {
        return match asked {
            Err(error) if !matches!(error, Error::ShimGone(_)) => Err(error),
            _ => Ok(()),
        };
    };
    match asked {
        Ok(_) | Err(Error::ShimGone(_)) => match process.ended_within(GONE_WITHIN, id).await {
            Ok(()) => Ok(()),
            Err(_) => process.kill_and_wait(id).await,
        },
        Err(error) => {
            tracing::warn!(sandbox = %id, %error, "the shim did not shut down when asked; it is killed");
            process.kill_and_wait(id).await
        }
    }
}
