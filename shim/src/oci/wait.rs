//! Waiting for a child in the foreground, with our signals passed on to it.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};

/// Signals to pass on, readable from a descriptor.
pub(crate) struct Signals(Option<berth_sys::signal::Watch>);

impl Signals {
    /// From here on signals wait to be passed on.
    pub(crate) fn block() -> Self {
        Self(berth_sys::signal::Watch::new().ok())
    }
}

impl Signals {
    /// Where they are read from, if they could be blocked.
    pub(crate) fn watch(&self) -> Option<&berth_sys::signal::Watch> {
        self.0.as_ref()
    }
}

/// Waits for the end of a child and gives the code a shell would show.
pub(crate) fn until_ended(pidfd: &OwnedFd, signals: &Signals) -> u8 {
    let watch = signals.watch();
    while let Some(watch) = watch {
        let mut polls = [PollFd::new(pidfd, PollFlags::IN), PollFd::new(watch, PollFlags::IN)];
        if rustix::event::poll(&mut polls, None).is_err_and(|e| e != rustix::io::Errno::INTR) {
            break;
        }
        if !polls[0].revents().is_empty() {
            break;
        }
        if let Some(signal) = watch.next() {
            let _ = berth_sys::pidfd::send_signal(pidfd, signal);
        }
    }
    berth_sys::pidfd::wait(pidfd).map_or(255, |exit| exit.shell_code() as u8)
}
