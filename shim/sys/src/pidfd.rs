//! Processes by handle: open, signal, wait, and the exit code that newer kernels keep for whoever is not the parent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The code a shell would show: 128 + N for signal N.
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Opens the process `pid`.
///
/// # Errors
/// ESRCH when there is none.
pub fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends `signal` (any number; 0 only asks whether the process is there).
///
/// # Errors
/// ESRCH when the process has ended.
pub fn send_signal(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: a null siginfo is allowed.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, std::ptr::null::<u8>(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for a child and reaps it.
///
/// # Errors
/// ECHILD when it is no child of this process, or was reaped already.
pub fn wait(pidfd: impl AsFd) -> io::Result<Exit> {
    loop {
        match rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => return Ok(exit_of(&status)),
            Ok(None) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reaps a child if it has ended.
///
/// # Errors
/// ECHILD when it is no child of this process, or was reaped already.
pub fn try_wait(pidfd: impl AsFd) -> io::Result<Option<Exit>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), options)?;
    Ok(status.map(|status| exit_of(&status)))
}

fn exit_of(status: &rustix::process::WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(255),
    }
}

/// struct pidfd_info of linux/pidfd.h, first published size.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroupid: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    ids: [u32; 8],
    exit_code: i32,
}

/// The exit of a process that somebody else reaped. None while it lives, or on kernels that do not tell (before 6.15).
pub fn exit_info(pidfd: impl AsFd) -> Option<Exit> {
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    // _IOWR(0xFF, 11, struct pidfd_info), with the size of the structure above.
    let request = (3u64 << 30) | ((size_of::<Info>() as u64) << 16) | (0xff << 8) | 11;
    let mut info = Info { mask: PIDFD_INFO_EXIT, ..Info::default() };
    // SAFETY: the request carries the size of `info`, beyond which the kernel does not write.
    let result = unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), request as libc::Ioctl, &raw mut info) };
    if result != 0 || info.mask & PIDFD_INFO_EXIT == 0 {
        return None;
    }
    let status = info.exit_code;
    Some(if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Code(libc::WEXITSTATUS(status))
    })
}

/// Whether the process has ended (reaped or not).
pub fn has_ended(pidfd: impl AsFd) -> bool {
    let fd = pidfd.as_fd();
    let mut poll = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut poll, Some(&now)), Ok(n) if n > 0)
}
