//! The v2 side, on the unified tree of a hybrid host.

use std::path::Path;

use berth_cgroup::{Cgroup, CgroupError, Hierarchies, Mode};

use super::support::{Group, hierarchies, path, resources};

/// The unified tree of a hybrid host, seen as a pure v2 host would see it: no controllers, but all the rest.
fn v2_only() -> Option<Hierarchies> {
    let mount = hierarchies()?.unified_mount()?;
    let line = format!("1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n", mount.display());
    let all = Hierarchies::discover_at(&line, Path::new("/")).unwrap();
    assert_eq!(all.mode(), Mode::V2);
    Some(all)
}

impl Group {
    fn v2(name: &str, json: &str) -> Option<Self> {
        let hierarchies = v2_only()?;
        let path = path(name);
        let group = Cgroup::create(&hierarchies, &path, &resources(json)).unwrap();
        Some(Self { hierarchies, path, group, child: None })
    }
}

#[test]
fn v2_devices_are_a_program_that_an_update_replaces() {
    let deny = r#"{"devices":[{"allow":false,"access":"rwm"}]}"#;
    let Some(mut group) = Group::v2("bpf", deny) else { return };
    let kmsg = r#"{"devices":[{"allow":false},{"allow":true,"type":"c","major":1,"minor":11,"access":"r"}]}"#;
    let pid = group.run(
        "try() { (: </dev/kmsg) 2>/dev/null && echo $1 yes || echo $1 no; }; \
         echo x >/dev/null && echo null; try first; kill -STOP $$; try second; kill -STOP $$; try third",
    );
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    for json in [kmsg, deny] {
        // Each stop is told once, so that a shell that is stopped again at once is not taken for one that never went on.
        let told = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).unwrap();
        assert!(told.is_some_and(|(_, status)| status.stopped()), "the shell ended: {told:?}");
        group.group.set(&resources(json)).unwrap();
        let dir = std::fs::File::open(group.group.unified_path().unwrap()).unwrap();
        assert_eq!(berth_sys::bpf::attached(&dir).unwrap().len(), 1);
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    }
    assert_eq!(group.wait().1, "null\nfirst no\nsecond yes\nthird no\n");
}

#[test]
fn v2_freezes_kills_and_removes() {
    let Some(mut group) = Group::v2("two", "{}") else { return };
    let pid = group.run("exec sleep 60");
    assert_eq!(group.group.procs().unwrap(), [pid]);
    assert!(group.group.v1_dirs().is_empty() && group.group.unified_dir().is_some());
    group.group.freeze().unwrap();
    assert_eq!(group.group.is_frozen(), Some(true));
    group.group.kill().unwrap();
    assert_eq!(group.wait().0, None);
    assert!(group.group.stats().cpu.usage_ns.is_some());
    assert_eq!(group.group.stats().memory.usage, None, "no controller, no number");
    assert_eq!(group.group.oom_kills(), None);
    group.group.delete().unwrap();
    assert!(!group.group.unified_path().unwrap().exists());
}

#[test]
fn v2_refuses_a_limit_without_its_controller_and_leaves_nothing() {
    let Some(hierarchies) = v2_only() else { return };
    if hierarchies.has_controller("memory") {
        return;
    }
    let path = path("missing");
    let error =
        Cgroup::create(&hierarchies, &path, &resources(r#"{"memory":{"limit":9999999}}"#)).unwrap_err();
    assert!(matches!(error, CgroupError::ControllerMissing { controller: "memory", .. }), "{error}");
    assert!(matches!(Cgroup::open(&hierarchies, &path), Err(CgroupError::NotFound { .. })));
    let _ = std::fs::remove_dir(hierarchies.unified_mount().unwrap().join(path.relative()).parent().unwrap());
}
