//! Descriptors that a process was started with.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each number.
static TAKEN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Takes ownership of the inherited descriptor `fd` (3 to 4095), once, and closes it at the next execve.
///
/// To be called at the start of main, before anything else opens descriptors that could have the same number.
///
/// # Errors
/// EBADF when it is not open, EBUSY when it was taken before, EINVAL out of range.
pub fn take(fd: i32) -> io::Result<OwnedFd> {
    if !(3..4096).contains(&fd) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let (word, bit) = (&TAKEN[fd as usize / 64], 1 << (fd % 64));
    if word.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: sets a flag; fails for what is not open.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the bitmap nobody else took it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
