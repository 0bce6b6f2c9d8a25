//! Which processes are in a group and below it.

use rustix::fs::{Dir as Entries, FileType};
use rustix::io::Errno;

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::group::places::Places;

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
    collect(dir, &mut pids).map_err(CgroupError::io("list", &dir.path))?;
    Ok(pids)
}

/// Walks the tree however deep it is: a container that may write its groups can nest thousands, to hide a process or to use up
/// descriptors and stack. So there is one descriptor at a time, and the way up is `..`, as no group can be moved.
fn collect(top: &Dir, pids: &mut Vec<i32>) -> std::result::Result<(), Errno> {
    let mut here = Dir { fd: top.fd.try_clone().map_err(|_| Errno::MFILE)?, path: top.path.clone() };
    // The names from the top to where the walk stands.
    let mut way: Vec<String> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        if after.is_none() {
            members(&here, pids)?;
        }
        match next_child(&here, after.as_deref())? {
            Some((name, child)) => {
                way.push(name);
                here = child;
                after = None;
            }
            None => {
                let Some(name) = way.pop() else { return Ok(()) };
                here = Dir::open(&here.fd, &top.path, "..")?;
                after = Some(name);
            }
        }
    }
}

fn members(dir: &Dir, pids: &mut Vec<i32>) -> std::result::Result<(), Errno> {
    let text = match dir.read("cgroup.procs") {
        // A threaded group names threads only.
        Err(Errno::OPNOTSUPP) => dir.read("cgroup.threads").unwrap_or_default(),
        // Removed meanwhile.
        Err(Errno::NODEV | Errno::NOENT) => return Ok(()),
        other => other?,
    };
    // Zero stands for a process that this PID namespace cannot see.
    pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok()).filter(|pid| *pid > 0));
    Ok(())
}

/// The first group below whose name comes after `after`.
pub(crate) fn next_child(
    dir: &Dir,
    after: Option<&str>,
) -> std::result::Result<Option<(String, Dir)>, Errno> {
    for name in children(dir)? {
        if after.is_some_and(|after| name.as_str() <= after) {
            continue;
        }
        match Dir::open(&dir.fd, &dir.path, &name) {
            Ok(mut child) => {
                // Only for messages, and not to grow without bound.
                child.path.clone_from(&dir.path);
                return Ok(Some((name, child)));
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
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
