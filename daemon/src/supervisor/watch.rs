//! Waiting for a shim's end, and reaping it if it was started by this daemon.

use super::Shim;
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Returns once the shim's process has ended. Without a handle of it, this waits for ever: the lost connection tells.
pub(crate) async fn watch(shim: &Shim) {
    let Some(pidfd) = shim.pidfd().and_then(|fd| fd.as_fd().try_clone_to_owned().ok()) else {
        return std::future::pending().await;
    };
    #[expect(
        deprecated,
        reason = "unsafe only for descriptors that somebody else may close; this one is ours alone"
    )]
    let watched = AsyncFd::with_interest(pidfd, Interest::READABLE);
    let Ok(watched) = watched else {
        return std::future::pending().await;
    };
    if watched.readable().await.is_err() {
        return std::future::pending().await;
    }
    // Only a child can be reaped; for the shim of an earlier daemon this fails and is of no interest.
    let _ = berth_sys::pidfd::try_wait(watched.get_ref());
}
