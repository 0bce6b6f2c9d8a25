//! A group that is gone when its guard is dropped, also after a failure, with a process to put into it.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies, Mode};
use berth_core::oci::LinuxResources;

pub(crate) struct Group {
    pub(crate) hierarchies: Hierarchies,
    pub(crate) path: CgroupPath,
    pub(crate) group: Cgroup,
    pub(crate) child: Option<Child>,
}

pub(crate) fn resources(json: &str) -> LinuxResources {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn hierarchies() -> Option<Hierarchies> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: skipped");
        return None;
    }
    Some(Hierarchies::discover().unwrap())
}

pub(crate) fn path(name: &str) -> CgroupPath {
    let text = format!("/berth-test-{}-{name}/leaf", std::process::id());
    CgroupPath::parse(Driver::Cgroupfs, &text).unwrap()
}

impl Group {
    pub(crate) fn new(name: &str, json: &str) -> Option<Self> {
        let hierarchies = hierarchies()?;
        let path = path(name);
        let group = Cgroup::create(&hierarchies, &path, &resources(json)).unwrap();
        Some(Self { hierarchies, path, group, child: None })
    }

    /// A shell that waits for a line before it goes on, so that it is in the group when it matters.
    pub(crate) fn run(&mut self, script: &str) -> i32 {
        let child = Command::new("/bin/sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        self.child = Some(child);
        self.group.join(pid).unwrap();
        drop(self.child.as_mut().unwrap().stdin.take());
        pid
    }

    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut child = self.child.take().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (child.wait().unwrap().code(), text)
    }

    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        self.group.v1_dirs().into_iter().chain(self.group.unified_path()).collect()
    }

    pub(crate) fn file(&self, controller: &str, file: &str) -> String {
        let (mount, _) = self
            .hierarchies
            .v1_mounts()
            .into_iter()
            .find(|(_, names)| names.iter().any(|name| name == controller))
            .unwrap();
        std::fs::read_to_string(mount.join(self.path.relative()).join(file)).unwrap().trim().to_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.group.kill();
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        let _ = self.group.delete();
        for dir in self.dirs() {
            let _ = std::fs::remove_dir(dir.parent().unwrap());
        }
    }
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within 10 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn has_v1() -> bool {
    hierarchies().is_some_and(|all| all.mode() != Mode::V2 && all.has_controller("memory"))
}
