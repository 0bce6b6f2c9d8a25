//! Removing a group with everything below it.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::group::make::rmdir;
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
    let mut pause = Duration::from_micros(500);
    loop {
        match rmdir(path) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY | Errno::NOTEMPTY) => {}
            Err(errno) => return Err(CgroupError::io("rmdir", path)(errno)),
        }
        if below(path)? {
            continue;
        }
        if Instant::now() >= deadline {
            return Err(CgroupError::InUse { path: path.to_owned() });
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Removes the groups below; says whether there were any.
fn below(path: &Path) -> Result<bool> {
    let failed = |errno| CgroupError::io("open", path)(errno);
    let dir = match Dir::open(rustix::fs::CWD, Path::new("/"), &path.to_string_lossy()) {
        Err(Errno::NOENT) => return Ok(false),
        other => other.map_err(failed)?,
    };
    let names = procs::children(&dir).map_err(failed)?;
    names.iter().try_for_each(|name| tree(&path.join(name)))?;
    Ok(!names.is_empty())
}
