//! Namespaces: their kinds, making and joining them.

use std::io;
use std::ops::{BitOr, BitOrAssign};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A set of namespace kinds, as clone3, unshare and setns take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(u64);

impl Namespaces {
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    /// Control groups' view.
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP as u64);
    /// Host and domain name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);
    /// System V and POSIX message queues, shared memory, semaphores.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);
    /// Users and capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    /// Process ids.
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    /// Network.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET as u64);
    /// Boot and monotonic clocks.
    pub const TIME: Self = Self(0x80);

    /// No namespace.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Whether none is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every kind of `other` is in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set without the kinds of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The kernel's flag bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl BitOr for Namespaces {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Namespaces {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Moves the calling process into the namespace behind `fd`, or, when `fd` is a pidfd, into all of that process's `kinds`.
///
/// # Errors
/// The errno of setns.
pub fn join(fd: BorrowedFd<'_>, kinds: Namespaces) -> io::Result<()> {
    // SAFETY: setns takes no memory of ours.
    let result = unsafe { libc::setns(fd.as_raw_fd(), kinds.0 as libc::c_int) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kind of the namespace behind `fd`.
///
/// # Errors
/// ENOTTY for what is no namespace.
pub fn kind_of(fd: BorrowedFd<'_>) -> io::Result<Namespaces> {
    // SAFETY: NS_GET_NSTYPE takes no argument.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::NS_GET_NSTYPE) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Namespaces(result as u32 as u64)) }
}

/// Gives the calling process new namespaces of `kinds`.
///
/// # Errors
/// The errno of unshare.
pub fn unshare(kinds: Namespaces) -> io::Result<()> {
    // SAFETY: only namespace flags can be in the set; the descriptor table stays shared as it was.
    let result = unsafe { libc::unshare(kinds.0 as libc::c_int) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
