//! The cgroup that a node's pods lie under, made in every hierarchy as a kubelet would.

use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of one name in every hierarchy.
pub struct CgroupParent {
    name: String,
    roots: Vec<PathBuf>,
}

impl CgroupParent {
    /// Makes it; cpuset gets the root's CPUs and memory nodes, without which nothing can join it.
    pub fn create(name: &str) -> anyhow::Result<Self> {
        let roots = hierarchies();
        for root in &roots {
            let dir = root.join(name);
            fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if root.join("cgroup.controllers").exists() || !root.join(file).exists() {
                    continue;
                }
                fs::write(dir.join(file), fs::read(root.join(file))?)?;
            }
        }
        Ok(Self { name: name.to_owned(), roots })
    }

    /// A path below it, as a kubelet sends it: `/berth-e2e-…/pod-x`.
    pub fn child(&self, name: &str) -> String {
        format!("/{}/{name}", self.name)
    }

    /// The directories of a path below it, in each hierarchy where they exist.
    pub fn directories(&self, path: &str) -> Vec<PathBuf> {
        let below = self.roots.iter().map(|root| root.join(path.trim_start_matches('/')));
        below.filter(|dir| dir.is_dir()).collect()
    }

    /// Removes it and everything below it, if it is empty of processes.
    pub fn remove(&self) {
        for root in &self.roots {
            remove_tree(&root.join(&self.name));
        }
    }
}

/// The mount points of every cgroup hierarchy, v1 and v2.
pub fn hierarchies() -> Vec<PathBuf> {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return Vec::new() };
    let mut roots: Vec<PathBuf> = mounts.lines().filter_map(hierarchy).collect();
    roots.sort();
    roots.dedup();
    roots
}

fn hierarchy(line: &str) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    let kind = right.split(' ').next()?;
    let mut fields = left.split(' ').skip(3);
    // A bind of a part of a hierarchy is not its root.
    let whole = fields.next()? == "/";
    let point = fields.next()?;
    (whole && matches!(kind, "cgroup" | "cgroup2")).then(|| PathBuf::from(point))
}

/// Removes a cgroup and everything below it, deepest first; a busy one stays.
pub fn remove_tree(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        remove_tree(&entry.path());
    }
    // Still busy: the leak checker says so.
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::hierarchy;
    use std::path::PathBuf;

    #[test]
    fn only_roots_of_hierarchies_count() {
        let v1 = "33 25 0:30 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory";
        assert_eq!(hierarchy(v1), Some(PathBuf::from("/sys/fs/cgroup/memory")));
        let v2 = "34 25 0:31 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
        assert_eq!(hierarchy(v2), Some(PathBuf::from("/sys/fs/cgroup")));
        let part = "35 25 0:30 /a /x/sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        assert_eq!(hierarchy(part), None);
        assert_eq!(hierarchy("36 25 0:32 / /sys/fs/cgroup rw - tmpfs tmpfs rw"), None);
    }
}
