//! What a container left behind, and how it is taken away whatever happened.

use super::Bundle;
use crate::procfs;
use std::process::Stdio;
use std::time::Duration;

impl Bundle {
    /// What is still there of a container that is gone: state, cgroups, processes, mounts. One line each.
    pub fn left(&self) -> Vec<String> {
        let state = std::fs::read_dir(self.state_dir()).into_iter().flatten().flatten();
        let mut left: Vec<String> = state.map(|entry| format!("state {}", entry.path().display())).collect();
        left.extend(self.cgroups("").iter().map(|dir| format!("cgroup {}", dir.display())));
        left.extend(self.processes().iter().map(|p| format!("process {} {}", p.pid, p.command)));
        left.extend(self.mounts().iter().map(|point| format!("mount {point}")));
        left
    }

    /// What is left after a while: the kernel takes some things down after it has said yes.
    pub fn left_after_all(&self) -> Vec<String> {
        for _ in 0..200 {
            if self.left().is_empty() {
                return Vec::new();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.left()
    }

    /// The processes in the container's cgroups.
    pub fn processes(&self) -> Vec<procfs::Process> {
        let name = format!("/{}", self.id());
        let mine = |table: &str| {
            let mut paths = table.lines().filter_map(|line| line.splitn(3, ':').nth(2));
            paths.any(|path| path.ends_with(&name) || path.contains(&format!("{name}/")))
        };
        procfs::processes().into_iter().filter(|process| mine(&process.cgroups)).collect()
    }

    /// The mounts of this mount namespace at or below the bundle, as the kernel writes them.
    fn mounts(&self) -> Vec<String> {
        let dir = self.dir().display().to_string();
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        points.filter(|point| point.starts_with(&dir)).map(str::to_owned).collect()
    }
}

/// Takes everything of the bundle away. It must go on past any failure.
pub(super) fn force(bundle: &Bundle) {
    if let Ok(mut command) = bundle.runtime().command() {
        command.arg("--root").arg(bundle.state_dir()).args(["delete", "--force", bundle.id()]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    for process in bundle.processes() {
        if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    let mut mounts = bundle.mounts();
    mounts.reverse();
    for point in mounts {
        let _ = rustix::mount::unmount(&point, rustix::mount::UnmountFlags::DETACH);
    }
    bundle.cgroups("").iter().for_each(|dir| crate::node::remove_cgroup(dir));
    let _ = std::fs::remove_dir_all(bundle.state_dir());
    // Through a mount that will not go the removal would reach what is not ours.
    if bundle.mounts().is_empty() {
        let _ = std::fs::remove_dir_all(bundle.dir());
    }
}
