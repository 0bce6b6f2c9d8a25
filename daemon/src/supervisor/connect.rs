//! Connecting to a shim. `Info` comes first: nothing else is said to a shim of an unknown level.

use super::Shim;
use crate::pod::{Error, PodPaths};
use berth_core::SandboxId;
use berth_proto::shim::{InfoRequest, ShimClient, ShutdownRequest};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a shim may take to say who it is.
const INFO_WITHIN: Duration = Duration::from_secs(5);
/// The oldest level that is still spoken.
const OLDEST_LEVEL: u32 = 1;

/// Connects to the shim of a sandbox. Without a handle of its process, one is opened.
///
/// # Errors
/// Nobody listens, it does not answer, it serves another sandbox, or it speaks a level that is not known.
pub(crate) async fn connect(paths: &PodPaths, id: SandboxId, pidfd: Option<OwnedFd>) -> Result<Shim, Error> {
    let client = ShimClient::connect(&paths.socket).await;
    let client = client.map_err(|error| Error::internal("connect to the shim", error))?;
    let info = client.info(&InfoRequest {}, INFO_WITHIN).await;
    let info = info.map_err(|error| Error::internal("ask the shim who it is", error))?;
    if info.sandbox_id != id.as_str() {
        let cause = format!("{} serves sandbox {}", paths.socket.display(), info.sandbox_id);
        return Err(Error::internal("connect to the shim", cause));
    }
    if !(OLDEST_LEVEL..=berth_proto::shim::LEVEL).contains(&info.level) {
        let cause = format!(
            "it speaks level {} ({}), known are 1 to {}",
            info.level,
            info.build,
            berth_proto::shim::LEVEL
        );
        return Err(Error::internal("connect to the shim", cause));
    }
    let pidfd =
        pidfd.or_else(|| i32::try_from(info.pid).ok().and_then(|pid| berth_sys::pidfd::open(pid).ok()));
    Ok(Shim::new(client, id, info, pidfd))
}

/// Ends whatever shim listens on a sandbox's socket, and waits for its end. Nobody there is as good.
///
/// # Errors
/// It lives on.
pub(crate) async fn end_at(paths: &PodPaths, id: SandboxId) -> Result<(), Error> {
    match connect(paths, id, None).await {
        Ok(shim) => end(&shim, id).await,
        Err(_) => Ok(()),
    }
}

/// Ends a shim: asks it first, kills it if it does not go.
///
/// # Errors
/// It lives on.
pub(crate) async fn end(shim: &Shim, id: SandboxId) -> Result<(), Error> {
    if let Err(error) = shim.shutdown(&ShutdownRequest {}).await
        && !matches!(error, Error::ShimGone(_))
    {
        tracing::warn!(sandbox = %id, %error, "the shim did not shut down when asked; it is killed");
        shim.kill_hard();
    }
    let gone = async {
        while !(shim.is_closed() && shim.pidfd().is_none_or(berth_sys::pidfd::has_ended)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let what = format!("the shim of sandbox {id}");
    let late = Error::Deadline { what, seconds: 10, hint: "; look for a process in state D" };
    tokio::time::timeout(Duration::from_secs(10), gone).await.map_err(|_| late)
}
