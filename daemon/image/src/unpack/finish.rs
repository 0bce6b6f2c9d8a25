//! Settling what a layer needs from the layers below, once those are in place.
//!
//! Directories without an entry get the attributes they have below; whiteouts that hide nothing are dropped; files of
//! lower layers that got a new name are copied up, under all their names. It runs in the daemon, since the marks of
//! overlay are hidden from a worker, by handles, and follows no link in the kernel. What a layer may ask for is bounded
//! ([`Bounds`]), and it ends when nobody waits for it any more.

pub mod copy;
pub mod lower;

use super::apply::tree::{clean, open_dir, split};
use super::limits::Limits;
use super::report::{NeedLink, Needs, Report};
use berth_core::{Classified, ErrorClass};
use copy::{Allowance, CopyError, Meta};
use lower::{Found, LookError, Lower};
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags, fsetxattr, fstat, futimens, linkat,
};
use rustix::fs::{mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;

/// Why a layer could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// A hard link names a file that no lower layer has.
    #[error("hard link {path:?} to {target:?}: no layer has that file")]
    NoTarget {
        /// The link.
        path: String,
        /// What it names.
        target: String,
    },
    /// A system call failed.
    #[error("finish {path:?}: {act}")]
    Kernel {
        /// The path in the layer.
        path: String,
        /// What was being done.
        act: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
    /// Copying a file up failed.
    #[error("copy up {path:?}")]
    Copy {
        /// The path in the layer.
        path: String,
        /// Why.
        source: CopyError,
    },
    /// The layer needs more of those below than is allowed.
    #[error("{path:?} and others need too many look-ups in the layers below")]
    TooMuch {
        /// Where the limit was met.
        path: String,
    },
    /// Nobody waits for it any more.
    #[error("given up")]
    GivenUp,
}

impl Classified for FinishError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Kernel { source: Errno::NOSPC | Errno::DQUOT, .. } => ErrorClass::ResourceExhausted,
            Self::Copy { source: CopyError::Kernel { source: Errno::NOSPC | Errno::DQUOT, .. }, .. } => {
                ErrorClass::ResourceExhausted
            }
            Self::Copy { source: CopyError::Data(error), .. } if error.kind() == ErrorKind::StorageFull => {
                ErrorClass::ResourceExhausted
            }
            Self::GivenUp | Self::Copy { source: CopyError::GivenUp, .. } => ErrorClass::Cancelled,
            _ => ErrorClass::FailedPrecondition,
        }
    }
}

/// How much a layer may cost, and whether anybody wants it.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// Limits of the layer.
    pub limits: &'a Limits,
    /// Set when nobody does.
    pub given_up: &'a AtomicBool,
}

/// What settling added to a layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// Bytes copied.
    pub bytes: u64,
    /// Files and directories made.
    pub inodes: u64,
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn kernel(act: &'static str, path: &[u8]) -> impl FnOnce(Errno) -> FinishError {
    let path = text(path);
    move |source| FinishError::Kernel { path, act, source }
}

fn look(path: &[u8]) -> impl FnOnce(LookError) -> FinishError {
    let path = path.to_vec();
    move |error| match error {
        LookError::Kernel(errno) => kernel("look below", &path)(errno),
        LookError::TooMuch => FinishError::TooMuch { path: text(&path) },
        LookError::GivenUp => FinishError::GivenUp,
    }
}

/// Marks the directories that hide what is below them. Only the daemon may set overlay's attributes.
///
/// # Errors
/// When a directory the worker reported is not there, or the mark cannot be set.
pub fn mark_opaque(root: BorrowedFd<'_>, report: &Report) -> Result<(), FinishError> {
    for path in &report.opaque {
        let path = &path.0;
        let fd = open_dir(root, path).map_err(kernel("open directory", path))?;
        fsetxattr(&fd, c"trusted.overlay.opaque", b"y", XattrFlags::empty())
            .map_err(kernel("mark as opaque", path))?;
    }
    Ok(())
}

/// Settles `needs` of the layer at `root` against `parents`, topmost first.
///
/// # Errors
/// A hard link to nothing, more than `bounds` allow, or a failed call.
pub fn settle(
    root: BorrowedFd<'_>,
    parents: &[OwnedFd],
    needs: &Needs,
    bounds: &Bounds<'_>,
) -> Result<Settled, FinishError> {
    let mut stage = Stage {
        root,
        lower: Lower::watched(parents, bounds.given_up),
        links: needs.links.iter().map(|link| link.path.0.as_slice()).collect(),
        copies: HashMap::new(),
        settled: Settled::default(),
        bounds,
    };
    for path in &needs.directories {
        stage.directory(&path.0)?;
    }
    for path in &needs.whiteouts {
        stage.whiteout(&path.0)?;
    }
    for link in &needs.links {
        stage.link(link)?;
    }
    Ok(stage.settled)
}

struct Stage<'a> {
    root: BorrowedFd<'a>,
    lower: Lower<'a>,
    /// Paths of the links that are to be made.
    links: HashSet<&'a [u8]>,
    /// Files copied up, by device and inode below, and where they stand in this layer: nothing is copied twice.
    copies: HashMap<(u64, u64), Vec<u8>>,
    settled: Settled,
    bounds: &'a Bounds<'a>,
}

impl Stage<'_> {
    /// The attributes of the directory below, also where a link below leads to it; else the defaults stay.
    fn directory(&self, path: &[u8]) -> Result<(), FinishError> {
        let Some(Found::Directory(dirs, _)) = self.lower.follow(path).map_err(look(path))? else {
            return Ok(());
        };
        let Some(from) = dirs.first() else { return Ok(()) };
        let to = open_dir(self.root, path).map_err(kernel("open directory", path))?;
        let meta = Meta::of_file(from.as_fd()).map_err(kernel("read attributes below", path))?;
        meta.set_file(to.as_fd()).map_err(kernel("set attributes", path))
    }

    /// A whiteout that hides nothing would show up as a device where the directory is not merged.
    fn whiteout(&self, path: &[u8]) -> Result<(), FinishError> {
        if self.lower.exact(path).map_err(look(path))?.is_some() {
            return Ok(());
        }
        self.in_parent(path, |dir, name| unlinkat(dir, name, AtFlags::empty()))
            .map_err(kernel("drop whiteout", path))
    }

    /// Does something in a directory of the layer and puts the directory's times back.
    fn in_parent<T>(
        &self,
        path: &[u8],
        act: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (parent, name) = split(path).ok_or(Errno::INVAL)?;
        let opened;
        let dir = if parent.is_empty() {
            self.root
        } else {
            opened = open_dir(self.root, parent)?;
            opened.as_fd()
        };
        let before = fstat(dir)?;
        let done = act(dir, name)?;
        let time = |sec: i64, nsec: u64| Timespec { tv_sec: sec, tv_nsec: i64::try_from(nsec).unwrap_or(0) };
        let times = Timestamps {
            last_access: time(before.st_atime, before.st_atime_nsec),
            last_modification: time(before.st_mtime, before.st_mtime_nsec),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        futimens(openat(dir, c".", flags, Mode::empty())?, &times)?;
        Ok(done)
    }

    fn link(&mut self, link: &NeedLink) -> Result<(), FinishError> {
        let (path, target) = (&link.path.0, &link.target.0);
        let missing = || FinishError::NoTarget { path: text(path), target: text(target) };
        let target = clean(target).map_err(|_| missing())?;
        let found = self.lower.file(&target).map_err(look(path))?;
        let Some((real, Found::Other(below, name, stat))) = found else { return Err(missing()) };
        let inode = (stat.st_dev, stat.st_ino);
        let copy = self.copies.get(&inode).cloned();
        if !self.make_room(&real)? {
            return match copy {
                Some(copy) => self.join(&copy, path),
                None => self.copy(below.as_fd(), &name, inode, path),
            };
        }
        if self.stat(&real).is_none() {
            match copy {
                Some(copy) => self.join(&copy, &real)?,
                None => self.copy(below.as_fd(), &name, inode, &real)?,
            }
        }
        self.join(&real, path)
    }

    fn copy(
        &mut self,
        below: BorrowedFd<'_>,
        name: &[u8],
        inode: (u64, u64),
        to: &[u8],
    ) -> Result<(), FinishError> {
        let Bounds { limits, given_up } = *self.bounds;
        let allowance = Allowance { bytes: limits.max_copied.saturating_sub(self.settled.bytes), given_up };
        let copied = self
            .in_parent(to, |dir, to_name| Ok(copy::up(below, name, dir, to_name, allowance)))
            .map_err(kernel("open directory", to))?
            .map_err(|source| FinishError::Copy { path: text(to), source })?;
        self.settled.bytes += copied;
        self.settled.inodes += 1;
        self.copies.insert(inode, to.to_vec());
        Ok(())
    }

    /// Whether the file may stand at its old path in this layer too; makes the directories above it. Not if this
    /// layer has something else there.
    fn make_room(&mut self, real: &[u8]) -> Result<bool, FinishError> {
        let ends: Vec<usize> =
            real.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).collect();
        // A link that is still to be made is something else, too.
        if self.links.contains(real) || ends.iter().any(|end| self.links.contains(&real[..*end])) {
            return Ok(false);
        }
        for end in ends {
            let dir = &real[..end];
            let made = self.in_parent(dir, |fd, name| mkdirat(fd, name, Mode::from_raw_mode(0o755)));
            match made {
                Ok(()) => {
                    self.settled.inodes += 1;
                    self.directory(dir)?;
                }
                Err(Errno::EXIST) if open_dir(self.root, dir).is_ok() => {}
                Err(Errno::EXIST) => return Ok(false),
                Err(errno) => return Err(kernel("make directory", dir)(errno)),
            }
        }
        Ok(self.stat(real).is_none_or(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::CharacterDevice
        }))
    }

    fn stat(&self, path: &[u8]) -> Option<rustix::fs::Stat> {
        let (parent, name) = split(path)?;
        if parent.is_empty() {
            return statat(self.root, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        }
        let dir = open_dir(self.root, parent).ok()?;
        statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    fn join(&self, real: &[u8], path: &[u8]) -> Result<(), FinishError> {
        let (parent, from) = split(real).unwrap_or_default();
        let opened;
        let dir = if parent.is_empty() {
            self.root
        } else {
            opened = open_dir(self.root, parent).map_err(kernel("open directory", parent))?;
            opened.as_fd()
        };
        self.in_parent(path, |to, name| linkat(dir, from, to, name, AtFlags::empty()))
            .map_err(kernel("make hard link", path))
    }
}

#[cfg(test)]
#[path = "finish/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "finish/bounds_tests.rs"]
mod bounds_tests;
