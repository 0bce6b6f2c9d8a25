//! Handing a terminal's master over a socket, and standing between it and the caller's own terminal.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use berth_sys::signal::Watch;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::termios::{OptionalActions, Termios};

use super::wait::Signals;
use super::{About, OciError};

/// Sends a descriptor to whoever listens at `path`.
pub(crate) fn send(path: &Path, fd: Option<&OwnedFd>) -> Result<(), OciError> {
    let Some(fd) = fd else { return Err(OciError::State("there is no terminal to hand over".into())) };
    let socket = UnixStream::connect(path).about("connect to", path)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let name = [IoSlice::new(b"/dev/ptmx")];
    rustix::net::sendmsg(&socket, &name, &mut control, SendFlags::NOSIGNAL).about("send to", path)?;
    Ok(())
}

/// Refuses what would wait for a terminal of ours when there is none.
pub(crate) fn must_have_ours(what: &str) -> Result<(), OciError> {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let controlling = || std::fs::File::open("/dev/tty").is_ok();
    if streams.iter().any(rustix::termios::isatty) || controlling() {
        return Ok(());
    }
    let text = format!(
        "{what} takes a terminal, and none of the standard streams is one: run it in one, or give --console-socket"
    );
    Err(OciError::Usage(text))
}

/// Our terminal in raw mode; as it was once dropped.
struct Raw(Option<Termios>);

impl Raw {
    fn enter() -> Self {
        let stdin = std::io::stdin();
        let Ok(before) = rustix::termios::tcgetattr(&stdin) else { return Self(None) };
        let mut raw = before.clone();
        raw.make_raw();
        let _ = rustix::termios::tcsetattr(&stdin, OptionalActions::Flush, &raw);
        Self(Some(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = rustix::termios::tcsetattr(std::io::stdin(), OptionalActions::Flush, before);
        }
    }
}

/// Copies both ways between our standard streams and `master` until the other side is gone. Signals are passed on to the
/// process; a change of our terminal's size becomes one of its own.
pub(crate) fn relay(master: &OwnedFd, pidfd: &OwnedFd, signals: &Signals) {
    let _raw = Raw::enter();
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    resize(master);
    let mut open = true;
    loop {
        let watch = signals.watch();
        let mut polls = vec![PollFd::new(master, PollFlags::IN)];
        polls.extend(watch.map(|watch| PollFd::new(watch, PollFlags::IN)));
        if open {
            polls.push(PollFd::new(&stdin, PollFlags::IN));
        }
        if rustix::event::poll(&mut polls, None).is_err_and(|e| e != rustix::io::Errno::INTR) {
            return;
        }
        let input = open && polls.last().is_some_and(|p| !p.revents().is_empty());
        if !polls[0].revents().is_empty() && !copy(master, &stdout) {
            return;
        }
        match watch.and_then(Watch::next) {
            Some(WINCH) => resize(master),
            Some(signal) => {
                let _ = berth_sys::pidfd::send_signal(pidfd, signal);
            }
            None => {}
        }
        if input && !copy(&stdin, master) {
            open = false;
        }
    }
}

/// SIGWINCH.
const WINCH: i32 = 28;

fn resize(master: &OwnedFd) {
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdin()) {
        let _ = rustix::termios::tcsetwinsize(master, size);
    }
}

fn copy(from: impl AsFd, to: impl AsFd) -> bool {
    let mut buffer = [0; 16 * 1024];
    let Ok(n @ 1..) = rustix::io::read(&from, &mut buffer) else { return false };
    let mut rest = &buffer[..n];
    while !rest.is_empty() {
        match rustix::io::write(&to, rest) {
            Ok(n) => rest = &rest[n..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
    true
}
