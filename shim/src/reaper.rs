//! Every child is reaped: those we know by their pidfd, each by its own waiter, so that no exit is taken for
//! another's; strays (orphans that came to us as the nearest subreaper) by a sweep.
//!
//! A sweep never takes a child it does not know while the runtime is at work: it may be a container's first
//! process that nobody has told us of yet.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_core::exit::CODE_UNKNOWN;
use berth_sys::pidfd;
use tokio::io::Interest;

use crate::io::watched::watched;

/// A process whose handle is not on the loop is asked after this.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Who is a child of ours and known.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    known: Mutex<BTreeSet<i32>>,
    busy: AtomicUsize,
}

/// The runtime is at work: no strays are reaped while this lives.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Reaper>);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this code, 128 + N for signal N.
    Code(u8),
    /// Somebody else reaped it, and the kernel does not tell.
    Unknown,
}

impl Ended {
    /// The code to report.
    pub(crate) fn code(self) -> u8 {
        match self {
            Ended::Code(code) => code,
            Ended::Unknown => CODE_UNKNOWN,
        }
    }
}

impl Reaper {
    /// Holds the sweep back while a child is made.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// A child that somebody is going to wait for. Call it before the [`Busy`] of its making ends.
    pub(crate) fn adopt(&self, pid: i32) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
    }

    /// Waits for an adopted child and reaps it.
    pub(crate) async fn wait(&self, pid: i32, pidfd: &OwnedFd) -> Ended {
        let ended = self.see_the_end(pid, pidfd).await;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
        self.sweep();
        ended
    }

    /// An end is told only when it was seen: a handle that cannot be watched is asked again and again.
    async fn see_the_end(&self, pid: i32, pidfd: &OwnedFd) -> Ended {
        let watched = pidfd.try_clone().and_then(|handle| watched(handle, Interest::READABLE));
        if let Err(error) = &watched {
            crate::say!("process {pid} cannot be watched and is asked every second: {error}");
        }
        loop {
            let ready = match &watched {
                Ok(watched) => watched.readable().await.ok(),
                Err(_) => None,
            };
            match pidfd::try_wait(pidfd) {
                Ok(Some(exit)) => return ended(exit),
                Ok(None) => match ready {
                    Some(mut ready) => ready.clear_ready(),
                    None => tokio::time::sleep(ASK_AGAIN).await,
                },
                // Somebody else has reaped it: it has ended, at any rate.
                Err(_) => return pidfd::exit_info(pidfd).map_or(Ended::Unknown, ended),
            }
        }
    }

    /// Reaps every ended child that nobody waits for.
    pub(crate) fn sweep(&self) {
        while self.busy.load(Ordering::Relaxed) == 0 {
            let Ok(Some(pid)) = berth_sys::process::ended_child() else { return };
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.contains(&pid) {
                // Its own waiter is about to take it, and sweeps again.
                return;
            }
            let Some(stray) = rustix::process::Pid::from_raw(pid) else { return };
            let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOHANG;
            if rustix::process::waitid(rustix::process::WaitId::Pid(stray), options).is_err() {
                return;
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.busy.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.sweep();
        }
    }
}

fn ended(exit: pidfd::Exit) -> Ended {
    Ended::Code(u8::try_from(exit.shell_code()).unwrap_or(CODE_UNKNOWN))
}
