//! Scopes with a real systemd as PID 1. Where PID 1 is another program the tests say so and pass.
#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::path::Path;
use std::process::{Child, Command};

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies, Mode};
use berth_core::oci::LinuxResources;

fn hierarchies() -> Option<Hierarchies> {
    let first = std::fs::read_to_string("/proc/1/comm").unwrap_or_default();
    if first.trim() != "systemd" || !Path::new("/run/systemd/private").exists() {
        eprintln!("PID 1 is not systemd: skipped");
        return None;
    }
    Some(Hierarchies::discover().unwrap())
}

fn resources(json: &str) -> LinuxResources {
    serde_json::from_str(json).unwrap()
}

struct Scope {
    path: CgroupPath,
    group: Cgroup,
    child: Child,
}

impl Scope {
    fn new(all: &Hierarchies, name: &str, json: &str) -> Self {
        let text = format!("berth-test{}.slice:berth:{name}", std::process::id());
        let path = CgroupPath::parse(Driver::Systemd, &text).unwrap();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let group = Cgroup::create(all, &path, &resources(json)).unwrap();
        assert!(
            group.unified_dir().is_none() && group.v1_dirs().is_empty(),
            "nothing before the first process"
        );
        group.join(i32::try_from(child.id()).unwrap()).unwrap();
        Self { path, group, child }
    }

    fn property(&self, name: &str) -> String {
        let out = Command::new("systemctl").args(["show", "-P", name, &self.path.unit()]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.end();
        let _ = self.group.delete();
    }
}

#[test]
fn a_scope_holds_the_process_and_the_limits_everywhere_and_goes_away() {
    let Some(all) = hierarchies() else { return };
    let json = r#"{"memory":{"limit":67108864},"cpu":{"shares":512},"pids":{"limit":9},
                   "devices":[{"allow":false},{"allow":true,"type":"c","major":1,"minor":11,"access":"r"}]}"#;
    let mut scope = Scope::new(&all, "whole", json);
    let table = std::fs::read_to_string(format!("/proc/{}/cgroup", scope.child.id())).unwrap();
    assert!(table.lines().all(|line| line.ends_with(&scope.path.relative())), "{table}");
    assert_eq!(scope.property("CollectMode"), "inactive-or-failed");
    assert_eq!(scope.property("Delegate"), "yes");
    assert_eq!(scope.property("TasksMax"), "9");
    let memory = if all.mode() == Mode::V2 { "MemoryMax" } else { "MemoryLimit" };
    assert_eq!(scope.property(memory), "67108864");
    assert_eq!(scope.property("DevicePolicy"), "strict");
    assert_eq!(scope.group.stats().memory.limit, Some(67_108_864));

    assert!(Command::new("systemctl").arg("daemon-reload").status().unwrap().success());
    assert_eq!(scope.group.stats().memory.limit, Some(67_108_864), "a reload must not undo the limit");
    scope.group.set(&resources(r#"{"memory":{"limit":134217728},"pids":{"limit":11}}"#)).unwrap();
    assert_eq!((scope.property(memory).as_str(), scope.property("TasksMax").as_str()), ("134217728", "11"));
    assert_eq!(scope.group.stats().pids.limit, Some(11));

    let dirs: Vec<_> = scope.group.v1_dirs().into_iter().chain(scope.group.unified_path()).collect();
    scope.end();
    scope.group.delete().unwrap();
    assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    assert_eq!(scope.property("LoadState"), "not-found");
    scope.group.delete().unwrap();
}

#[test]
fn a_name_in_use_is_refused_and_a_dead_one_is_free_again() {
    let Some(all) = hierarchies() else { return };
    let mut scope = Scope::new(&all, "again", "{}");
    let other = Cgroup::create(&all, &scope.path, &LinuxResources::default()).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let error = other.join(i32::try_from(child.id()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("UnitExists"), "{error}");
    scope.end();
    scope.group.delete().unwrap();
    let again = Cgroup::create(&all, &scope.path, &LinuxResources::default()).unwrap();
    again.join(i32::try_from(child.id()).unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    again.delete().unwrap();
}
