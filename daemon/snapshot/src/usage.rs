//! How much a tree takes on disk.

use crate::error::{Error, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Bytes and inodes of a tree; hard links count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Allocated bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Adds up the tree below `path`, not following links and not entering other file systems.
///
/// # Errors
/// When the top cannot be read. What vanishes during the walk is left out.
pub fn of(path: &Path) -> Result<Usage> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let top = openat(rustix::fs::CWD, path, flags, Mode::empty()).map_err(Error::io("open", path))?;
    let stat = rustix::fs::fstat(&top).map_err(Error::io("stat", path))?;
    let mut walk = Walk { device: stat.st_dev, seen: HashSet::new(), usage: Usage::default() };
    walk.usage.inodes = 1;
    walk.usage.bytes = blocks(&stat);
    let mut pending = vec![top];
    while let Some(dir) = pending.pop() {
        walk.directory(&dir, &mut pending);
    }
    Ok(walk.usage)
}

struct Walk {
    device: u64,
    seen: HashSet<u64>,
    usage: Usage,
}

fn blocks(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

impl Walk {
    fn directory(&mut self, dir: &OwnedFd, pending: &mut Vec<OwnedFd>) {
        let Ok(entries) = Dir::read_from(dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.entry(dir, name.to_owned(), pending);
        }
    }

    fn entry(&mut self, dir: &OwnedFd, name: CString, pending: &mut Vec<OwnedFd>) {
        let Ok(stat) = statat(dir.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        if stat.st_dev != self.device || (stat.st_nlink > 1 && !self.first_sight(&stat)) {
            return;
        }
        self.usage.inodes += 1;
        self.usage.bytes += blocks(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            if let Ok(below) = openat(dir.as_fd(), &name, flags, Mode::empty()) {
                pending.push(below);
            }
        }
    }

    fn first_sight(&mut self, stat: &rustix::fs::Stat) -> bool {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        directory || self.seen.insert(stat.st_ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_links_count_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/a"), vec![1u8; 8192]).unwrap();
        let one = of(dir.path()).unwrap();
        std::fs::hard_link(dir.path().join("d/a"), dir.path().join("b")).unwrap();
        assert_eq!(of(dir.path()).unwrap(), one);
        assert_eq!(one.inodes, 3);
        assert!(one.bytes >= 8192);
    }
}
