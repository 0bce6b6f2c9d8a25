//! The directories of one group.

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::hierarchy::{Hierarchies, Mode};

/// A group's directories in all hierarchies.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// With the controllers of each hierarchy, in the order of their mount points.
    pub(crate) v1: Vec<(Vec<String>, Dir)>,
    pub(crate) unified: Option<Dir>,
}

impl Places {
    /// Opens what is there.
    pub(crate) fn open(hierarchies: &Hierarchies, relative: &str) -> Self {
        let v1 = hierarchies.v1().iter().filter_map(|one| {
            Some((one.controllers.clone(), Dir::open(&one.root, &one.mount, relative).ok()?))
        });
        Self {
            v1: v1.collect(),
            unified: hierarchies.unified().and_then(|tree| Dir::open(&tree.root, &tree.mount, relative).ok()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.v1.is_empty() && self.unified.is_none()
    }

    /// The directory whose files belong to a controller.
    pub(crate) fn dir(&self, mode: Mode, controller: &str) -> Option<&Dir> {
        match mode {
            Mode::V2 => self.unified.as_ref(),
            Mode::V1 | Mode::Hybrid => self.v1_dir(controller),
        }
    }

    /// The v1 directory of a controller.
    pub(crate) fn v1_dir(&self, controller: &str) -> Option<&Dir> {
        self.v1.iter().find(|(names, _)| names.iter().any(|name| name == controller)).map(|(_, dir)| dir)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Dir> {
        self.v1.iter().map(|(_, dir)| dir).chain(&self.unified)
    }

    pub(crate) fn join(&self, pid: i32) -> Result<()> {
        let pid = pid.to_string();
        for dir in self.all() {
            dir.write("cgroup.procs", &pid)
                .map_err(CgroupError::io("join", dir.path.join("cgroup.procs")))?;
        }
        Ok(())
    }
}
