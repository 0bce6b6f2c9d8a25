//! What the daemon's start waits for, but not for ever.

use berth_core::SandboxId;
use std::time::Duration;

/// What one pod may take of the daemon's start.
pub(crate) const WORK_MAX: Duration = Duration::from_secs(15);

/// Waits for work, but not for ever: a plugin or a shim that hangs keeps its own pod and not the node. It goes on behind.
pub(crate) async fn in_time<T: Send + 'static>(
    sandbox: SandboxId,
    what: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match tokio::time::timeout(WORK_MAX, tokio::spawn(work)).await {
        Ok(Ok(done)) => Some(done),
        Ok(Err(error)) => {
            tracing::error!(%sandbox, what, %error, "failed; the next start tries again");
            None
        }
        Err(_) => {
            tracing::warn!(%sandbox, what, after = ?WORK_MAX, "not done yet; it goes on while the daemon serves");
            None
        }
    }
}
