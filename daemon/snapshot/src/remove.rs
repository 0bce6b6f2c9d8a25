//! Removal of trees that strangers have filled: by directory handles, never over a link or into another mount, and
//! with bounded stack and handles however deep the tree is.

use crate::error::{Error, Result};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Deeper directories are moved up to the top of the tree before they are emptied.
const MAX_DEPTH: usize = 128;

/// Removes the directory `path` and all below it; a missing one is no error.
///
/// # Errors
/// [`Error::Mounted`] when something is mounted inside: then nothing behind the mount point is touched.
pub fn tree(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent_fd = match openat(CWD, parent, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(Error::io("open", parent)(errno)),
    };
    let Some(name) = path.file_name() else { return Ok(()) };
    let name = CString::new(name.as_encoded_bytes()).map_err(|_| Error::io("remove", path)(Errno::INVAL))?;
    entry_in(parent_fd.as_fd(), &name, path)
}

/// Removes the entry `name` of `parent`, whatever it is. `shown` is its path, for errors alone.
///
/// # Errors
/// As [`tree`].
pub fn entry_in(parent: BorrowedFd<'_>, name: &CStr, shown: &Path) -> Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(Errno::BUSY) => return Err(Error::Mounted(shown.to_owned())),
        Err(errno) => return Err(Error::io("remove", shown)(errno)),
    }
    let top = open_below(parent, name, shown)?;
    let mut walk = Walk { top: &top, shown, moved: 0 };
    walk.run()?;
    unlink_dir(parent, name, shown)
}

fn open_below(parent: BorrowedFd<'_>, name: &CStr, shown: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    openat2(parent, name, flags, Mode::empty(), resolve).map_err(|errno| match errno {
        Errno::XDEV => Error::Mounted(shown.to_owned()),
        errno => Error::io("open", shown)(errno),
    })
}

fn unlink_dir(parent: BorrowedFd<'_>, name: &CStr, shown: &Path) -> Result<()> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(Error::Mounted(shown.to_owned())),
        Err(errno) => Err(Error::io("remove directory", shown)(errno)),
    }
}

struct Walk<'a> {
    top: &'a OwnedFd,
    shown: &'a Path,
    moved: u64,
}

impl Walk<'_> {
    /// Depth first; each level on the stack is one open directory and its name in the level above.
    fn run(&mut self) -> Result<()> {
        let mut stack: Vec<(OwnedFd, CString)> = Vec::new();
        loop {
            let dir = stack.last().map_or(self.top.as_fd(), |(fd, _)| fd.as_fd());
            match self.empty_files(dir, stack.len())? {
                Some(child) => {
                    let fd = open_below(dir, &child, &self.path(&stack, &child))?;
                    stack.push((fd, child));
                }
                None => {
                    let Some((_, name)) = stack.pop() else { return Ok(()) };
                    let above = stack.last().map_or(self.top.as_fd(), |(fd, _)| fd.as_fd());
                    unlink_dir(above, &name, &self.path(&stack, &name))?;
                }
            }
        }
    }

    /// Unlinks all files of `dir`; returns a directory in it that must be emptied first, if there is one.
    fn empty_files(&mut self, dir: BorrowedFd<'_>, depth: usize) -> Result<Option<CString>> {
        let mut entries = Dir::read_from(dir).map_err(Error::io("list", self.shown))?;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(Error::io("list", self.shown))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.is_directory(dir, &entry)? {
                match unlinkat(dir, name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(Errno::NOTEMPTY | Errno::EXIST) if depth < MAX_DEPTH => {
                        return Ok(Some(name.to_owned()));
                    }
                    Err(Errno::NOTEMPTY | Errno::EXIST) => self.move_up(dir, name)?,
                    Err(Errno::BUSY) => return Err(Error::Mounted(self.shown.join(lossy(name)))),
                    Err(errno) => {
                        return Err(Error::io("remove directory", self.shown.join(lossy(name)))(errno));
                    }
                }
                continue;
            }
            match unlinkat(dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::BUSY) => return Err(Error::Mounted(self.shown.join(lossy(name)))),
                Err(errno) => return Err(Error::io("remove", self.shown.join(lossy(name)))(errno)),
            }
        }
        Ok(None)
    }

    fn is_directory(&self, dir: BorrowedFd<'_>, entry: &rustix::fs::DirEntry) -> Result<bool> {
        Ok(match entry.file_type() {
            FileType::Unknown => {
                let stat = statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(Error::io("stat", self.shown.join(lossy(entry.file_name()))))?;
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        })
    }

    /// Too deep: the directory becomes an entry of the top, where it is met again.
    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
        loop {
            self.moved += 1;
            let target = CString::new(format!(".berth-deep-{}", self.moved)).unwrap_or_default();
            match renameat(dir, name, self.top, &target) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                Err(errno) => return Err(Error::io("move up", self.shown.join(lossy(name)))(errno)),
            }
        }
    }

    fn path(&self, stack: &[(OwnedFd, CString)], last: &CStr) -> PathBuf {
        let mut path = self.shown.to_owned();
        path.extend(stack.iter().map(|(_, name)| lossy(name)));
        path.join(lossy(last))
    }
}

fn lossy(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Makes a directory 0700 unless it is there.
pub(crate) fn ensure_dir(path: &Path) -> Result<()> {
    match mkdirat(CWD, path, Mode::from_raw_mode(0o700)) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => {
            let stat = rustix::fs::lstat(path).map_err(Error::io("stat", path))?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                return Ok(());
            }
            Err(Error::io("make directory", path)(Errno::NOTDIR))
        }
        Err(errno) => Err(Error::io("make directory", path)(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tree_is_removed_already() {
        let dir = tempfile::tempdir().unwrap();
        tree(&dir.path().join("none")).unwrap();
        tree(&dir.path().join("none/below")).unwrap();
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, inside) = (dir.path().join("outside"), dir.path().join("inside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("keep"), "x").unwrap();
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("a/link")).unwrap();
        tree(&inside).unwrap();
        assert!(!inside.exists());
        assert!(outside.join("keep").exists());
    }

    #[test]
    fn a_very_deep_tree_goes_with_few_handles() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = openat(CWD, &top, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            mkdirat(&at, c"d", Mode::from_raw_mode(0o700)).unwrap();
            at = openat(&at, c"d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        tree(&top).unwrap();
        assert!(!top.exists());
    }
}
