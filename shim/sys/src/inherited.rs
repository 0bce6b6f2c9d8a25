//! Descriptors that a process was started with.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Takes ownership of the inherited descriptor `fd` (3 to 63), once, and closes it at the next execve.
///
/// To be called at the start of main, before anything else opens descriptors that could have the same number.
///
/// # Errors
/// EBADF when it is not open, EBUSY when it was taken before, EINVAL out of range.
pub fn take(fd: i32) -> io::Result<OwnedFd> {
    if !(3..64).contains(&fd) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    if TAKEN.fetch_or(1 << fd, Ordering::SeqCst) & (1 << fd) != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: sets a flag; fails for what is not open.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the bitmap nobody else took it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
