//! Mounts by descriptor. What rustix has is used as it is; here is mount_setattr, and the few combinations that everybody needs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use crate::missing::{Call, lacks};

mod stage;

pub use stage::{allow_stage, create as create_on_stage, missing_call};

/// Attributes of one mount, as `MOUNT_ATTR_*`.
pub mod attr {
    /// Read-only.
    pub const RDONLY: u64 = 0x1;
    /// Set-uid and file capabilities have no effect.
    pub const NOSUID: u64 = 0x2;
    /// Device files cannot be opened.
    pub const NODEV: u64 = 0x4;
    /// Nothing can be executed.
    pub const NOEXEC: u64 = 0x8;
    /// Mask of the three access time policies; to be cleared whenever one of them is set.
    pub const ATIME: u64 = 0x70;
    /// Access times relative to modification.
    pub const RELATIME: u64 = 0x0;
    /// No access times.
    pub const NOATIME: u64 = 0x10;
    /// Every access time.
    pub const STRICTATIME: u64 = 0x20;
    /// No access times of directories.
    pub const NODIRATIME: u64 = 0x80;
    /// Owners are mapped through a user namespace.
    pub const IDMAP: u64 = 0x10_0000;
    /// Symbolic links are not followed.
    pub const NOSYMFOLLOW: u64 = 0x20_0000;
}

/// How mount events travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Neither received nor sent.
    Private,
    /// Received only.
    Slave,
    /// Both ways.
    Shared,
    /// Private, and cannot be bind-mounted.
    Unbindable,
}

impl Propagation {
    /// The `MS_*` bit.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Private => libc::MS_PRIVATE,
            Self::Slave => libc::MS_SLAVE,
            Self::Shared => libc::MS_SHARED,
            Self::Unbindable => libc::MS_UNBINDABLE,
        }
    }
}

/// A change to a mount: attributes to set and to clear, propagation, a user namespace to map owners through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change<'a> {
    /// `attr::*` bits to set.
    pub set: u64,
    /// `attr::*` bits to clear.
    pub clear: u64,
    /// New propagation.
    pub propagation: Option<Propagation>,
    /// For `attr::IDMAP`.
    pub user_namespace: Option<BorrowedFd<'a>>,
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Applies `change` to the mount behind `fd`, and to everything below with `recursive`.
///
/// # Errors
/// ENOSYS before Linux 5.12; EPERM for locked attributes; EINVAL for what the file system does not support.
pub fn set_attributes(fd: impl AsFd, change: &Change<'_>, recursive: bool) -> io::Result<()> {
    if lacks(Call::MountSetattr) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let order = MountAttr {
        set: change.set,
        clear: change.clear,
        propagation: change.propagation.map_or(0, Propagation::bits),
        userns_fd: change.user_namespace.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a static string, `order` has the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const order,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A detached copy (on the stage where the newer calls are missing) of the mount that holds `fd`, rooted at `fd`; with everything mounted below when `recursive`.
///
/// # Errors
/// EINVAL when the mount belongs to another mount namespace, or is unbindable.
pub fn clone_tree(fd: impl AsFd, recursive: bool) -> io::Result<OwnedFd> {
    if missing_call().is_some() {
        return stage::bind(fd.as_fd(), recursive);
    }
    let mut flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(fd, "", flags)?)
}

/// A detached copy of what is at `path`, as [`clone_tree`].
///
/// # Errors
/// As [`clone_tree`], and those of the path.
pub fn clone_tree_at(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    if missing_call().is_some() {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        return stage::bind(fd.as_fd(), recursive);
    }
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(rustix::fs::CWD, path, flags)?)
}

/// Attaches the detached `mount` over `target` (a directory on a directory, anything else on anything else).
///
/// # Errors
/// ENOTDIR when the kinds differ, EINVAL for a mount that is not detached.
pub fn attach(mount: impl AsFd, target: impl AsFd) -> io::Result<()> {
    if missing_call().is_some() {
        let (mount, target) = (stage::path_of(mount.as_fd()), stage::path_of(target.as_fd()));
        return Ok(rustix::mount::mount_move(mount, target)?);
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", target, "", flags)?)
}
