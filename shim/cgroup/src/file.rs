//! Reading and writing cgroup files through a directory descriptor.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, read, retry_on_intr, write};

use crate::error::{CgroupError, Result};

/// Largest file read: `cgroup.procs` and `memory.stat` are the long ones; the bound is against surprises.
const LARGEST: usize = 16 << 20;

/// A group's directory in one hierarchy.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
}

impl Dir {
    /// Opens `relative` below `root`. The path's parts are the host's own groups, never a container's links: cgroup
    /// file systems hold no symbolic links.
    pub(crate) fn open(root: impl AsFd, mount: &Path, relative: &str) -> std::result::Result<Self, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = openat(root, relative, flags, Mode::empty())?;
        Ok(Self { fd, path: mount.join(relative) })
    }

    /// Writes a whole value in one call, as cgroup files want it.
    pub(crate) fn write(&self, file: &str, value: &str) -> std::result::Result<(), Errno> {
        let fd = openat(&self.fd, file, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
        retry_on_intr(|| write(&fd, value.as_bytes()))?;
        Ok(())
    }

    /// The same, with the file and value in the error.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<()> {
        self.write(file, value).map_err(|errno| CgroupError::Set {
            path: self.path.join(file),
            value: value.to_owned(),
            errno,
        })
    }

    /// Reads a whole file; what is not UTF-8 is replaced.
    pub(crate) fn read(&self, file: &str) -> std::result::Result<String, Errno> {
        let fd = openat(&self.fd, file, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
        let mut text = vec![0; 4096];
        let mut len = 0;
        loop {
            match retry_on_intr(|| read(&fd, &mut text[len..]))? {
                0 => break,
                more => len += more,
            }
            if len == text.len() && len < LARGEST {
                text.resize(len * 2, 0);
            } else if len >= LARGEST {
                return Err(Errno::FBIG);
            }
        }
        text.truncate(len);
        Ok(String::from_utf8(text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// The same, with the file in the error.
    pub(crate) fn text(&self, file: &str) -> Result<String> {
        self.read(file).map_err(CgroupError::io("read", self.path.join(file)))
    }

    /// The first line without its end, if the file can be read.
    pub(crate) fn line(&self, file: &str) -> Option<String> {
        let text = self.read(file).ok()?;
        Some(text.lines().next().unwrap_or("").to_owned())
    }

    /// A number; none if the file is missing or says something else (`max`).
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        self.line(file)?.trim().parse().ok()
    }

    /// The value beside `key` in a flat keyed file.
    pub(crate) fn keyed(&self, file: &str, key: &str) -> Option<u64> {
        lookup(&self.read(file).ok()?, key)
    }

    pub(crate) fn exists(&self, file: &str) -> bool {
        rustix::fs::accessat(&self.fd, file, rustix::fs::Access::EXISTS, rustix::fs::AtFlags::empty()).is_ok()
    }
}

/// The value beside `key` in the text of a flat keyed file.
pub(crate) fn lookup(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
