//! A shim's process: watched until it ends, reaped if it is a child of this daemon.

use crate::pod::Error;
use berth_core::SandboxId;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// How long a killed process may take to end.
const DEAD_WITHIN: Duration = Duration::from_secs(10);

/// A process that is waited for as long as it lives, whoever holds or drops this.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pidfd: Arc<OwnedFd>,
    ended: watch::Receiver<bool>,
}

impl Process {
    /// Takes a process in hand.
    pub(crate) fn adopt(pidfd: OwnedFd) -> Self {
        let (tell, ended) = watch::channel(false);
        let pidfd = Arc::new(pidfd);
        if let Ok(own) = pidfd.as_fd().try_clone_to_owned() {
            tokio::spawn(async move {
                wait(own).await;
                tell.send_replace(true);
            });
        }
        Self { pidfd, ended }
    }

    /// The shim of a sandbox by a process id that was written down: only if that still is what it was.
    pub(crate) fn of(pid: u32, id: SandboxId) -> Option<Self> {
        let number = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
        let pidfd = berth_sys::pidfd::open(number).ok()?;
        // Looked at after it is in hand: a process that took over the id has another command line.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        let is_it = words.any(|word| word == b"--sandbox") && words.next() == Some(id.as_str().as_bytes());
        (is_it && !berth_sys::pidfd::has_ended(&pidfd)).then(|| Self::adopt(pidfd))
    }

    /// Returns once it has ended, and has been reaped.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.clone();
        if ended.wait_for(|ended| *ended).await.is_err() && !berth_sys::pidfd::has_ended(&self.pidfd) {
            // Nobody watches: the lost connection must tell.
            std::future::pending::<()>().await;
        }
    }

    /// Ends it at once. What it held is found by cgroup.
    pub(crate) fn kill(&self) {
        if let Err(error) = berth_sys::pidfd::send_signal(&self.pidfd, 9)
            && error.kind() != std::io::ErrorKind::NotFound
            && error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error())
        {
            tracing::warn!(%error, "a shim could not be killed");
        }
    }

    /// Ends it and waits for its end.
    ///
    /// # Errors
    /// It does not die: it sleeps in the kernel.
    pub(crate) async fn kill_and_wait(&self, id: SandboxId) -> Result<(), Error> {
        self.kill();
        self.ended_within(DEAD_WITHIN, id).await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It lives on.
    pub(crate) async fn ended_within(&self, time: Duration, id: SandboxId) -> Result<(), Error> {
        let late = |_| Error::Deadline {
            what: format!("the shim of sandbox {id}"),
            seconds: time.as_secs(),
            hint: "; look for a process in state D",
        };
        tokio::time::timeout(time, self.ended()).await.map_err(late)
    }
}

/// Waits for the end of a process and reaps it. Only a child can be reaped; for others that fails and is of no interest.
async fn wait(pidfd: OwnedFd) {
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
    let _ = berth_sys::pidfd::try_wait(watched.get_ref());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn state(pid: u32) -> Option<char> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')')?.1.trim().chars().next()
    }

    #[tokio::test]
    #[expect(clippy::zombie_processes, reason = "what is tested here reaps it")]
    async fn a_child_that_ends_is_no_zombie_even_if_nobody_asks() {
        let child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        let process = Process::adopt(berth_sys::pidfd::open(i32::try_from(pid).unwrap()).unwrap());
        let clone = process.clone();
        drop(process);
        tokio::time::timeout(Duration::from_secs(5), clone.ended()).await.unwrap();
        assert_eq!(state(pid), None, "still there, as a zombie");
    }

    #[tokio::test]
    #[expect(clippy::zombie_processes, reason = "what is tested here reaps it")]
    async fn only_the_shim_of_this_very_sandbox_is_found_by_number() {
        let id = SandboxId::parse(&"a".repeat(64)).unwrap();
        let other = SandboxId::parse(&"b".repeat(64)).unwrap();
        let mut child = Command::new("sh");
        let child =
            child.args(["-c", "sleep 30; true", "berth-shim", "--sandbox", id.as_str()]).spawn().unwrap();
        assert!(Process::of(child.id(), other).is_none());
        assert!(Process::of(std::process::id(), id).is_none());
        // The shell may not have been executed yet.
        let mut found = None;
        for _ in 0..100 {
            found = found.or_else(|| Process::of(child.id(), id));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        found.unwrap().kill_and_wait(id).await.unwrap();
        assert_eq!(state(child.id()), None);
    }
}
