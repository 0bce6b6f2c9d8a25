//! A group for one further process of a container, to end all that it starts.

use rustix::fs::{Mode as FileMode, mkdirat};

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::group::places::Places;
use crate::hierarchy::Mode;
use crate::{kill, remove};

/// A directory below the container's, in one hierarchy. Limits and counts stay the container's.
#[derive(Debug)]
pub struct ExecGroup {
    places: Places,
}

impl ExecGroup {
    pub(crate) fn make(mode: Mode, container: &Places, name: &str) -> Result<Option<Self>> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n']) {
            let reason = "not a plain name".to_owned();
            return Err(CgroupError::Invalid { setting: format!("exec group {name:?}"), reason });
        }
        let make = |parent: &Dir| {
            let failed = || CgroupError::io("mkdir", parent.path.join(name));
            mkdirat(&parent.fd, name, FileMode::from_raw_mode(0o755)).map_err(failed())?;
            Dir::open(&parent.fd, &parent.path, name).map_err(failed())
        };
        let places = match (mode, &container.unified, container.v1_dir("freezer")) {
            (Mode::Hybrid, Some(unified), _) => Places { v1: Vec::new(), unified: Some(make(unified)?) },
            (Mode::V1, _, Some(freezer)) => {
                Places { v1: vec![(vec!["freezer".to_owned()], make(freezer)?)], unified: None }
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { places }))
    }

    /// Moves a process into it. The process must have joined the container's group before.
    ///
    /// # Errors
    /// The failed write; ESRCH if the process is gone.
    pub fn join(&self, pid: i32) -> Result<()> {
        self.places.join(pid)
    }

    /// Kills all in it.
    ///
    /// # Errors
    /// [`CgroupError::Timeout`] where the kernel has no `cgroup.kill` and the group could not be emptied.
    pub fn kill(&self) -> Result<()> {
        kill::kill(&self.places)
    }

    /// Removes it. Processes left in it go back to nobody: kill first, or leave it to the container's removal.
    ///
    /// # Errors
    /// [`CgroupError::InUse`] while there are processes in it.
    pub fn delete(&self) -> Result<()> {
        remove::all(&self.places)
    }
}
