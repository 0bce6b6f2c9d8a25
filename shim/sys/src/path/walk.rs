//! A path taken name by name: to make what is missing on the way, and where openat2 is missing. Every directory from the root to where
//! the walk stands is held, so that `..` never asks the file system, and no name is followed by the kernel.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Kind;

/// Links followed before a path is refused; the kernel's own limit.
const MAX_LINKS: usize = 40;

const PROC_MAGIC: u64 = 0x9fa0;

/// The inode of procfs's own root directory: what is a link there is a text, everywhere below it is a door to somewhere else.
const PROC_ROOT: u64 = 1;

/// What a walk does about symbolic links, and about other file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Follows them inside the root.
    Follow,
    /// Refuses them.
    Refuse,
    /// Follows them, on one file system.
    Beneath,
    /// Refuses them, on one file system.
    None,
}

pub(super) struct Walk {
    dirs: Vec<OwnedFd>,
    pending: VecDeque<OsString>,
    links: usize,
}

impl Walk {
    pub(super) fn new(root: BorrowedFd<'_>, path: &Path) -> io::Result<Self> {
        let mut walk = Self { dirs: vec![root.try_clone_to_owned()?], pending: VecDeque::new(), links: 0 };
        walk.push_front(path);
        Ok(walk)
    }

    fn push_front(&mut self, path: &Path) {
        let parts: Vec<OsString> = path
            .components()
            .filter_map(|c| match c {
                Component::Normal(name) => Some(name.to_owned()),
                Component::ParentDir => Some(OsString::from("..")),
                _ => None,
            })
            .collect();
        for part in parts.into_iter().rev() {
            self.pending.push_front(part);
        }
    }

    /// The next name, once `..` has been dealt with.
    fn next(&mut self) -> Option<OsString> {
        while let Some(name) = self.pending.pop_front() {
            if name != ".." {
                return Some(name);
            }
            if self.dirs.len() > 1 {
                self.dirs.pop();
            }
        }
        None
    }

    fn here(&self) -> io::Result<&OwnedFd> {
        // The root is always there, so the list is never empty.
        self.dirs.last().ok_or_else(|| Errno::NOENT.into())
    }

    /// Makes what is missing; says whether the last component was.
    pub(super) fn run(mut self, kind: Kind) -> io::Result<(OwnedFd, bool)> {
        let mut made = false;
        while let Some(name) = self.next() {
            let wanted = if self.pending.is_empty() { kind } else { Kind::Directory };
            let (fd, fresh) = self.step(&name, wanted)?;
            made = fresh;
            self.dirs.extend(fd);
        }
        let end = self.dirs.pop().ok_or(Errno::NOENT)?;
        Ok((end, made))
    }

    /// One component: opened, made, or (None) replaced by the text of the link it is.
    fn step(&mut self, name: &OsStr, wanted: Kind) -> io::Result<(Option<OwnedFd>, bool)> {
        let dir = self.here()?;
        let (fd, fresh) = match at(dir, name) {
            Err(Errno::NOENT) => {
                make(dir, name, wanted)?;
                (at(dir, name)?, true)
            }
            other => (other?, false),
        };
        if kind_of(&fd)? != FileType::Symlink {
            return Ok((Some(fd), fresh));
        }
        self.follow(&fd)?;
        Ok((None, false))
    }

    /// Goes on where a link points to.
    fn follow(&mut self, link: &OwnedFd) -> io::Result<()> {
        self.links += 1;
        let magic = rustix::fs::fstatfs(link)?.f_type as u64 == PROC_MAGIC
            && rustix::fs::fstat(self.here()?)?.st_ino != PROC_ROOT;
        if self.links > MAX_LINKS || magic {
            return Err(Errno::LOOP.into());
        }
        let text = rustix::fs::readlinkat(link, c"", Vec::new())?;
        let text = Path::new(OsStr::from_bytes(text.as_bytes()));
        if text.is_absolute() {
            self.dirs.truncate(1);
        }
        self.push_front(text);
        Ok(())
    }

    /// Opens what is at the path's end.
    pub(super) fn open(mut self, flags: OFlags, links: Links) -> io::Result<OwnedFd> {
        let device = rustix::fs::fstat(self.here()?)?.st_dev;
        let mut last = None;
        while let Some(name) = self.next() {
            let fd = at(self.here()?, &name)?;
            if kind_of(&fd)? == FileType::Symlink {
                match links {
                    Links::Refuse | Links::None => return Err(Errno::LOOP.into()),
                    _ if self.pending.is_empty() && flags.contains(OFlags::NOFOLLOW) => {
                        return if flags.contains(OFlags::PATH) { Ok(fd) } else { Err(Errno::LOOP.into()) };
                    }
                    _ => self.follow(&fd)?,
                }
                continue;
            }
            if matches!(links, Links::Beneath | Links::None) && rustix::fs::fstat(&fd)?.st_dev != device {
                return Err(Errno::XDEV.into());
            }
            self.dirs.push(fd);
            last = Some(name);
        }
        self.end(flags, last)
    }

    /// Opens where the walk stands, for more than a handle by its name and only if that is still the same.
    fn end(mut self, flags: OFlags, name: Option<OsString>) -> io::Result<OwnedFd> {
        let end = self.dirs.pop().ok_or(Errno::NOENT)?;
        let is_directory = kind_of(&end)? == FileType::Directory;
        if flags.contains(OFlags::DIRECTORY) && !is_directory {
            return Err(Errno::NOTDIR.into());
        }
        if flags.contains(OFlags::PATH) {
            return Ok(end);
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if is_directory {
            return Ok(rustix::fs::openat(&end, ".", flags, Mode::empty())?);
        }
        let (dir, name) = (self.here()?, name.ok_or(Errno::NOENT)?);
        let opened = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        let same = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|s| (s.st_dev, s.st_ino));
        if same(&opened)? == same(&end)? { Ok(opened) } else { Err(Errno::AGAIN.into()) }
    }
}

fn at(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn kind_of(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// Makes one entry; somebody else making it first is fine.
fn make(dir: &OwnedFd, name: &OsStr, kind: Kind) -> io::Result<()> {
    let outcome = match kind {
        Kind::Directory => rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)),
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        }
    };
    match outcome {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
