//! Settling what a layer needs from the layers below, once those are in place.
//!
//! Directories without an entry get the attributes they have below; whiteouts that hide nothing are dropped; files of
//! lower layers that got a new name are copied up, under all their names. It runs in the daemon, by handles, and
//! follows no link in the kernel.

pub mod copy;
pub mod lower;

use super::apply::tree::{clean, open_dir, split};
use super::report::{NeedLink, Needs, Report};
use copy::{CopyError, Meta};
use lower::{Found, Lower};
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags, fsetxattr, fstat, futimens, linkat,
};
use rustix::fs::{mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn kernel(act: &'static str, path: &[u8]) -> impl FnOnce(Errno) -> FinishError {
    let path = text(path);
    move |source| FinishError::Kernel { path, act, source }
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
/// A hard link to nothing, or a failed call.
pub fn settle(root: BorrowedFd<'_>, parents: &[OwnedFd], needs: &Needs) -> Result<(), FinishError> {
    let lower = Lower::new(parents);
    let stage = Stage { root, lower: &lower, links: &needs.links };
    for path in &needs.directories {
        stage.directory(&path.0)?;
    }
    for path in &needs.whiteouts {
        stage.whiteout(&path.0)?;
    }
    for link in &needs.links {
        stage.link(link)?;
    }
    Ok(())
}

struct Stage<'a> {
    root: BorrowedFd<'a>,
    lower: &'a Lower<'a>,
    links: &'a [NeedLink],
}

impl Stage<'_> {
    /// The attributes of the directory below, also where a link below leads to it; else the defaults stay.
    fn directory(&self, path: &[u8]) -> Result<(), FinishError> {
        let Some(Found::Directory(dirs, _)) = self.lower.follow(path).map_err(kernel("look below", path))?
        else {
            return Ok(());
        };
        let Some(from) = dirs.first() else { return Ok(()) };
        let to = open_dir(self.root, path).map_err(kernel("open directory", path))?;
        let meta = Meta::of_file(from.as_fd()).map_err(kernel("read attributes below", path))?;
        meta.set_file(to.as_fd()).map_err(kernel("set attributes", path))
    }

    /// A whiteout that hides nothing would show up as a device where the directory is not merged.
    fn whiteout(&self, path: &[u8]) -> Result<(), FinishError> {
        if self.lower.exact(path).map_err(kernel("look below", path))?.is_some() {
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

    fn link(&self, link: &NeedLink) -> Result<(), FinishError> {
        let (path, target) = (&link.path.0, &link.target.0);
        let missing = || FinishError::NoTarget { path: text(path), target: text(target) };
        let target = clean(target).map_err(|_| missing())?;
        let found = self.lower.file(&target).map_err(kernel("look below", path))?;
        let Some((real, Found::Other(below, name, _))) = found else { return Err(missing()) };
        let copy = |to: &[u8]| {
            self.in_parent(to, |dir, to_name| Ok(copy::up(below.as_fd(), &name, dir, to_name)))
                .map_err(kernel("open directory", to))?
                .map_err(|source| FinishError::Copy { path: text(to), source })
        };
        if !self.make_room(&real)? {
            return copy(path);
        }
        if self.stat(&real).is_none() {
            copy(&real)?;
        }
        self.join(&real, path)
    }

    /// Whether the file may stand at its old path in this layer too; makes the directories above it. Not if this
    /// layer has something else there.
    fn make_room(&self, real: &[u8]) -> Result<bool, FinishError> {
        // A link that is still to be made is something else, too.
        let at_or_above =
            |link: &[u8]| real.strip_prefix(link).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
        if self.links.iter().any(|link| at_or_above(&link.path.0)) {
            return Ok(false);
        }
        let ends: Vec<usize> =
            real.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).collect();
        for end in ends {
            let dir = &real[..end];
            let made = self.in_parent(dir, |fd, name| mkdirat(fd, name, Mode::from_raw_mode(0o755)));
            match made {
                Ok(()) => self.directory(dir)?,
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
