//! Removing a group with everything below it.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, unlinkat};
use rustix::io::Errno;

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::group::places::Places;
use crate::procs;

/// How long dying processes are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Removes the group from every hierarchy; tells the first failure after trying them all.
pub(crate) fn all(places: &Places) -> Result<()> {
    let mut result = Ok(());
    for dir in places.all() {
        result = result.and(tree(&dir.path));
    }
    result
}

/// Removes one directory, first alone (the usual case), then with the groups below it.
pub(crate) fn tree(path: &Path) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    match patiently(CWD, path, deadline) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::BUSY | Errno::NOTEMPTY) => {}
        Err(errno) => return Err(CgroupError::io("rmdir", path)(errno)),
    }
    let outcome = match Dir::open(CWD, Path::new("/"), &path.to_string_lossy()) {
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => Err(errno),
        Ok(dir) => below(dir, deadline).and_then(|()| patiently(CWD, path, deadline)),
    };
    match outcome {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::BUSY | Errno::NOTEMPTY) => Err(CgroupError::InUse { path: path.to_owned() }),
        Err(errno) => Err(CgroupError::io("rmdir", path)(errno)),
    }
}

/// Removes the groups below, deepest first, however deep they are: one descriptor at a time, and the way up is `..`.
fn below(top: Dir, deadline: Instant) -> std::result::Result<(), Errno> {
    let mut here = top;
    let mut way: Vec<String> = Vec::new();
    loop {
        if let Some((name, child)) = procs::next_child(&here, None)? {
            way.push(name);
            here = child;
            continue;
        }
        let Some(name) = way.pop() else { return Ok(()) };
        here = Dir::open(&here.fd, Path::new(""), "..")?;
        match patiently(&here.fd, Path::new(&name), deadline) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Removes one directory. While there are groups below it there is nothing to wait for; processes that are dying are waited for.
fn patiently(at: impl AsFd, path: &Path, deadline: Instant) -> std::result::Result<(), Errno> {
    let mut pause = Duration::from_micros(500);
    loop {
        match unlinkat(&at, path, AtFlags::REMOVEDIR) {
            Err(errno @ (Errno::BUSY | Errno::NOTEMPTY)) => {
                let dir = Dir::open(&at, Path::new(""), &path.to_string_lossy());
                let nested = dir.is_ok_and(|dir| procs::children(&dir).is_ok_and(|names| !names.is_empty()));
                if nested || Instant::now() >= deadline {
                    return Err(errno);
                }
            }
            other => return other,
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
