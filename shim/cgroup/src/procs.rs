//! Which processes are in a group and below it.

use rustix::fs::{Dir as Entries, FileType};
use rustix::io::Errno;

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::group::places::Places;

/// Deeper nesting is not followed; the kernel's own bound is a setting, and no one nests so deep by accident.
const DEEPEST: usize = 64;

/// All processes, from the unified tree and one v1 hierarchy: a container that may write its groups can have moved a
/// process in one of them, not out of it.
pub(crate) fn all(places: &Places) -> Result<Vec<i32>> {
    let v1 = ["freezer", "pids", "memory", "devices"].iter().find_map(|name| places.v1_dir(name));
    let v1 = v1.or_else(|| places.v1.first().map(|(_, dir)| dir));
    let mut pids = Vec::new();
    for dir in v1.into_iter().chain(&places.unified) {
        pids.extend(below(dir)?);
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// The processes of one directory and those below it.
pub(crate) fn below(dir: &Dir) -> Result<Vec<i32>> {
    let mut pids = Vec::new();
    collect(dir, DEEPEST, &mut pids).map_err(CgroupError::io("list", &dir.path))?;
    Ok(pids)
}

fn collect(dir: &Dir, depth: usize, pids: &mut Vec<i32>) -> std::result::Result<(), Errno> {
    let text = match dir.read("cgroup.procs") {
        // A threaded group names threads only.
        Err(Errno::OPNOTSUPP) => dir.read("cgroup.threads").unwrap_or_default(),
        // Removed meanwhile.
        Err(Errno::NODEV | Errno::NOENT) => return Ok(()),
        other => other?,
    };
    // Zero stands for a process that this PID namespace cannot see.
    pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok()).filter(|pid| *pid > 0));
    if depth == 0 {
        return Ok(());
    }
    for name in children(dir)? {
        match Dir::open(&dir.fd, &dir.path, &name) {
            Ok(child) => collect(&child, depth - 1, pids)?,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The names of the groups directly below.
pub(crate) fn children(dir: &Dir) -> std::result::Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Entries::read_from(&dir.fd)? {
        let entry = match entry {
            Err(Errno::NODEV | Errno::NOENT) => break,
            other => other?,
        };
        let name = entry.file_name().to_string_lossy();
        if entry.file_type() == FileType::Directory && name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}
