//! What control group hierarchies this host has, from the mount table.
//!
//! A directory name proves nothing: plain directories named like controllers can stand beside the real mounts. So
//! the mount table says where a hierarchy is, and statfs says that it really is one.

mod mountinfo;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode as FileMode, OFlags, fstatfs, open};

use crate::error::{CgroupError, Result};
use mountinfo::CgroupMount;

const CGROUP_MAGIC: i64 = 0x0027_e0eb;
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// Which worlds the host mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Controllers in v1 hierarchies, no unified tree.
    V1,
    /// Controllers in v1 hierarchies, and a unified tree beside them.
    Hybrid,
    /// The unified tree only.
    V2,
}

/// The hierarchies of this host (or of this mount namespace).
#[derive(Debug)]
pub struct Hierarchies {
    mode: Mode,
    v1: Vec<V1Hierarchy>,
    unified: Option<UnifiedHierarchy>,
}

/// A mounted v1 hierarchy.
#[derive(Debug)]
pub struct V1Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Its controllers, or one `name=...`.
    pub controllers: Vec<String>,
    pub(crate) root: OwnedFd,
}

/// The mounted unified tree.
#[derive(Debug)]
pub struct UnifiedHierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The controllers its root offers.
    pub controllers: Vec<String>,
    pub(crate) root: OwnedFd,
}

/// Where the first whole file system of a kind is mounted: for other trees of the kernel's than control groups.
///
/// # Errors
/// The mount table cannot be read.
pub fn mount_point(kind: &str) -> Result<Option<PathBuf>> {
    Ok(mountinfo::mount_point(&mount_table()?, kind))
}

fn mount_table() -> Result<String> {
    std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| CgroupError::Discover(format!("read /proc/self/mountinfo: {error}")))
}

impl Hierarchies {
    /// Reads the mount table of the calling process and checks every root by statfs.
    pub fn discover() -> Result<Self> {
        Self::build(&mountinfo::cgroup_mounts(&mount_table()?), Path::new("/"), true)
    }

    /// The same from a given mount table, its mount points taken below `root`, without the check by statfs: for tests
    /// on plain directories.
    pub fn discover_at(table: &str, root: &Path) -> Result<Self> {
        Self::build(&mountinfo::cgroup_mounts(table), root, false)
    }

    fn build(mounts: &[CgroupMount], root: &Path, check: bool) -> Result<Self> {
        let mut v1: Vec<V1Hierarchy> = Vec::new();
        let mut unified = None;
        for mount in mounts {
            let at = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            let magic = if mount.unified { CGROUP2_MAGIC } else { CGROUP_MAGIC };
            let Some(fd) = open_root(&at, check.then_some(magic)) else { continue };
            if mount.unified {
                unified.get_or_insert_with(|| UnifiedHierarchy::new(at, fd));
            } else if !v1.iter().any(|known| known.controllers == mount.controllers) {
                v1.push(V1Hierarchy { mount: at, controllers: mount.controllers.clone(), root: fd });
            }
        }
        v1.sort_by(|a, b| a.mount.cmp(&b.mount));
        let has_controllers = v1.iter().any(|one| !one.is_named());
        let mode = match (&unified, has_controllers) {
            (Some(_), true) => Mode::Hybrid,
            (Some(_), false) => Mode::V2,
            (None, true) => Mode::V1,
            (None, false) => {
                return Err(CgroupError::Discover("no cgroup hierarchy is mounted".to_owned()));
            }
        };
        Ok(Self { mode, v1, unified })
    }

    /// Which worlds there are.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The v1 hierarchies, `name=systemd` and other named ones among them, sorted by mount point.
    pub fn v1(&self) -> &[V1Hierarchy] {
        &self.v1
    }

    /// The unified tree, if it is mounted.
    pub fn unified(&self) -> Option<&UnifiedHierarchy> {
        self.unified.as_ref()
    }

    /// Mount point and controllers of every v1 hierarchy, for the cgroup mounts of a container.
    pub fn v1_mounts(&self) -> Vec<(PathBuf, Vec<String>)> {
        self.v1.iter().map(|one| (one.mount.clone(), one.controllers.clone())).collect()
    }

    /// Mount point of the unified tree.
    pub fn unified_mount(&self) -> Option<PathBuf> {
        self.unified.as_ref().map(|tree| tree.mount.clone())
    }

    /// Whether limits of this controller can be set at all.
    pub fn has_controller(&self, name: &str) -> bool {
        let in_v1 = self.v1.iter().any(|one| one.controllers.iter().any(|c| c == name));
        let v2_name = match name {
            "blkio" => "io",
            "cpuacct" => "cpu",
            other => other,
        };
        let in_v2 = self.mode == Mode::V2
            && self.unified.as_ref().is_some_and(|tree| tree.controllers.iter().any(|c| c == v2_name));
        in_v1 || in_v2
    }
}

impl V1Hierarchy {
    /// Whether it has no controller and only tracks processes.
    pub fn is_named(&self) -> bool {
        self.controllers.iter().all(|name| name.starts_with("name="))
    }
}

impl UnifiedHierarchy {
    fn new(mount: PathBuf, root: OwnedFd) -> Self {
        let controllers = std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
        let controllers = controllers.split_whitespace().map(str::to_owned).collect();
        Self { mount, controllers, root }
    }
}

/// Opens a hierarchy's root; none if it is gone, hidden, or of another file system.
fn open_root(path: &Path, magic: Option<i64>) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = open(path, flags, FileMode::empty()).ok()?;
    match magic {
        Some(magic) if fstatfs(&fd).ok()?.f_type != magic => None,
        _ => Some(fd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discover(points: &[&str], table: &str) -> Result<Hierarchies> {
        let root = tempfile::tempdir().unwrap();
        for point in points {
            std::fs::create_dir_all(root.path().join(point)).unwrap();
        }
        Hierarchies::discover_at(table, root.path())
    }

    const TMPFS: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n";
    const CPU: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
    const NAMED: &str = "33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
    const UNIFIED: &str = "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_three_worlds() {
        let all = ["sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/systemd", "sys/fs/cgroup/unified"];
        let hybrid = discover(&all, &format!("{TMPFS}{CPU}{NAMED}{UNIFIED}")).unwrap();
        assert_eq!(hybrid.mode(), Mode::Hybrid);
        assert_eq!(hybrid.v1()[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(hybrid.v1()[1].controllers, ["name=systemd"]);
        assert!(hybrid.has_controller("cpuacct") && !hybrid.has_controller("memory"));
        assert_eq!(discover(&all, &format!("{CPU}{NAMED}")).unwrap().mode(), Mode::V1);
        let v2 = "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n";
        assert_eq!(discover(&all, v2).unwrap().mode(), Mode::V2);
        assert_eq!(discover(&all, &format!("{NAMED}{UNIFIED}")).unwrap().mode(), Mode::V2);
    }

    #[test]
    fn no_hierarchy_is_an_error() {
        assert!(matches!(discover(&[], TMPFS), Err(CgroupError::Discover(_))));
        assert!(matches!(discover(&[], CPU), Err(CgroupError::Discover(_))), "mount point is gone");
    }

    #[test]
    fn a_plain_directory_in_a_mount_point_place_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        assert!(open_root(root.path(), Some(CGROUP_MAGIC)).is_none());
        assert!(open_root(root.path(), None).is_some());
    }
}
