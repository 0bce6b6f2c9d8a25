//! How much a tree takes on disk.

use crate::error::{Error, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Bytes and inodes of a tree; hard links count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Allocated bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Deeper directories count, but not what is in them. A path through more could not even be named in one call.
const MAX_DEPTH: usize = 1024;

/// Adds up the tree below `path`, not following links and not entering other file systems. Depth first, with one open
/// directory per level: how many there are side by side is in the hands of whoever fills the tree.
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
    let mut levels = vec![Dir::new(top).map_err(Error::io("list", path))?];
    while let Some(dir) = levels.last_mut() {
        match dir.read() {
            Some(Ok(entry)) => {
                let below = walk.entry(dir, entry.file_name());
                if levels.len() < MAX_DEPTH {
                    levels.extend(below.and_then(|fd| Dir::new(fd).ok()));
                }
            }
            Some(Err(_)) | None => {
                levels.pop();
            }
        }
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
    /// Counts one entry; if it is a directory, opens it.
    fn entry(&mut self, dir: &Dir, name: &CStr) -> Option<OwnedFd> {
        if name == c"." || name == c".." {
            return None;
        }
        let dir = dir.fd().ok()?;
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if stat.st_dev != self.device || (stat.st_nlink > 1 && !self.first_sight(&stat)) {
            return None;
        }
        self.usage.inodes += 1;
        self.usage.bytes += blocks(&stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(dir, name, flags, Mode::empty()).ok()
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

    fn open_files() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn directories_side_by_side_are_not_held_open() {
        let dir = tempfile::tempdir().unwrap();
        for at in 0..3000 {
            std::fs::create_dir(dir.path().join(at.to_string())).unwrap();
        }
        let before = open_files();
        let (done, end) = std::sync::mpsc::channel();
        let path = dir.path().to_owned();
        let walk = std::thread::spawn(move || {
            let usage = of(&path).unwrap();
            done.send(()).unwrap();
            usage
        });
        let mut most = 0;
        while end.try_recv().is_err() {
            most = most.max(open_files());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(walk.join().unwrap().inodes, 3001);
        // Other tests of this program have files open, too.
        assert!(most < before + 500, "{most} files were open, {before} before");
    }

    #[test]
    fn a_very_deep_tree_takes_bounded_handles_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = openat(rustix::fs::CWD, dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..2000 {
            rustix::fs::mkdirat(&at, c"d", Mode::from_raw_mode(0o700)).unwrap();
            at = openat(&at, c"d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert_eq!(of(dir.path()).unwrap().inodes, 1 + u64::try_from(MAX_DEPTH).unwrap());
        crate::remove::tree(dir.path()).unwrap();
    }
}
