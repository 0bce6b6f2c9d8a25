//! The crate on this host's real hierarchies. Needs root; says so and passes when it is not.
#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "host/support.rs"]
mod support;
#[path = "host/v2.rs"]
mod v2;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use berth_cgroup::{Cgroup, CgroupError};
use berth_core::oci::LinuxResources;

use support::{Group, eventually, has_v1, hierarchies, path, resources};

#[test]
fn a_process_joins_every_hierarchy_of_the_mount_table() {
    let Some(mut group) = Group::new("join", "{}") else { return };
    let pid = group.run("cat /proc/self/cgroup; sleep 60");
    let table = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    for line in table.lines() {
        assert!(line.ends_with(&group.path.to_string()), "{line}");
    }
    assert_eq!(table.lines().count(), group.dirs().len());
    assert_eq!(group.group.procs().unwrap()[0], pid);
}

#[test]
fn limits_are_in_the_files() {
    if !has_v1() {
        return;
    }
    let json = r#"{"memory":{"limit":67108864,"swap":67108864,"reservation":33554432},
        "cpu":{"shares":512,"quota":50000,"period":100000,"burst":10000},"pids":{"limit":17}}"#;
    let Some(group) = Group::new("limits", json) else { return };
    assert_eq!(group.file("memory", "memory.limit_in_bytes"), "67108864");
    assert_eq!(group.file("memory", "memory.memsw.limit_in_bytes"), "67108864");
    assert_eq!(group.file("memory", "memory.soft_limit_in_bytes"), "33554432");
    assert!(group.file("memory", "memory.oom_control").starts_with("oom_kill_disable 0"));
    assert_eq!(group.file("cpu", "cpu.shares"), "512");
    assert_eq!(group.file("cpu", "cpu.cfs_quota_us"), "50000");
    assert_eq!(group.file("cpu", "cpu.cfs_burst_us"), "10000");
    assert_eq!(group.file("pids", "pids.max"), "17");
    assert_eq!(
        group.file("cpuset", "cpuset.mems"),
        std::fs::read_to_string(
            group
                .hierarchies
                .v1_mounts()
                .iter()
                .find(|(_, c)| c.contains(&"cpuset".into()))
                .unwrap()
                .0
                .join("cpuset.mems")
        )
        .unwrap()
        .trim()
    );
}

#[test]
fn an_update_is_all_or_nothing() {
    if !has_v1() {
        return;
    }
    let start =
        r#"{"memory":{"limit":67108864,"swap":67108864},"cpu":{"shares":512,"quota":50000,"period":100000}}"#;
    let Some(group) = Group::new("update", start) else { return };
    let up = r#"{"memory":{"limit":134217728,"swap":134217728},"cpu":{"quota":-1}}"#;
    group.group.set(&resources(up)).unwrap();
    assert_eq!(group.file("memory", "memory.memsw.limit_in_bytes"), "134217728");
    assert_eq!(group.file("cpu", "cpu.cfs_quota_us"), "-1");
    assert_eq!(group.file("cpu", "cpu.shares"), "512");
    // The last step fails in the kernel: no such cpu.
    let bad = r#"{"memory":{"limit":33554432,"swap":33554432},"cpu":{"shares":100},"pids":{"limit":5},
        "blockIO":{"throttleReadBpsDevice":[{"major":4095,"minor":4095,"rate":1}]}}"#;
    let error = group.group.set(&resources(bad)).unwrap_err();
    assert!(matches!(error, CgroupError::Set { .. }), "{error}");
    assert_eq!(group.file("memory", "memory.limit_in_bytes"), "134217728");
    assert_eq!(group.file("memory", "memory.memsw.limit_in_bytes"), "134217728");
    assert_eq!(group.file("cpu", "cpu.shares"), "512");
    assert_eq!(group.file("pids", "pids.max"), "max");
}

#[test]
fn what_fails_leaves_nothing() {
    let Some(hierarchies) = hierarchies() else { return };
    let path = path("nothing");
    for bad in [r#"{"cpu":{"cpus":"4096"}}"#, r#"{"memory":{"limit":10,"swap":5}}"#] {
        Cgroup::create(&hierarchies, &path, &resources(bad)).unwrap_err();
        assert!(matches!(Cgroup::open(&hierarchies, &path), Err(CgroupError::NotFound { .. })));
    }
    for (mount, _) in hierarchies.v1_mounts() {
        let _ = std::fs::remove_dir(mount.join(path.relative()).parent().unwrap());
    }
    let _ = std::fs::remove_dir(hierarchies.unified_mount().unwrap().join(path.relative()).parent().unwrap());
}

#[test]
fn a_used_group_is_refused_and_a_leftover_replaced() {
    let Some(mut group) = Group::new("used", "{}") else { return };
    group.run("exec sleep 60");
    let again = || Cgroup::create(&group.hierarchies, &group.path, &LinuxResources::default());
    assert!(matches!(again(), Err(CgroupError::InUse { .. })));
    assert_eq!(group.group.procs().unwrap().len(), 1, "the refused create must not touch the group");
    group.group.kill().unwrap();
    group.child.take().unwrap().wait().unwrap();
    std::fs::create_dir(group.dirs()[0].join("nested")).unwrap();
    let again = Cgroup::create(&group.hierarchies, &group.path, &LinuxResources::default()).unwrap();
    assert!(again.procs().unwrap().is_empty());
    assert!(!group.dirs()[0].join("nested").exists());
}

#[test]
fn kill_reaches_forks_and_frozen_processes() {
    let Some(mut group) = Group::new("kill", "{}") else { return };
    group.run("for i in 1 2 3 4 5; do (sleep 60; :) & done; wait");
    eventually("five children", || group.group.procs().unwrap().len() >= 6);
    group.group.freeze().unwrap();
    assert_eq!(group.group.is_frozen(), Some(true));
    group.group.kill().unwrap();
    assert_eq!(group.wait().0, None, "by signal");
    eventually("empty", || group.group.procs().unwrap().is_empty());
    assert!(group.group.unified_dir().is_none(), "a killed group is no target for a clone");
}

#[test]
fn a_frozen_process_stands_and_a_thawed_one_goes_on() {
    let Some(mut group) = Group::new("freeze", "{}") else { return };
    let pid = group.run("while :; do :; done");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.split(' ').nth(13).unwrap().parse::<u64>().unwrap()
    };
    group.group.freeze().unwrap();
    let at = ticks();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(ticks(), at);
    group.group.thaw().unwrap();
    eventually("running again", || ticks() > at);
}

#[test]
fn delete_takes_nested_groups_along_and_is_repeatable() {
    let Some(group) = Group::new("nested", "{}") else { return };
    for dir in group.dirs() {
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
    }
    group.group.delete().unwrap();
    assert!(group.dirs().iter().all(|dir| !dir.exists()));
    group.group.delete().unwrap();
}

#[test]
fn processes_in_nested_groups_are_found_and_killed() {
    let Some(mut group) = Group::new("deep", "{}") else { return };
    let pid = group.run("exec sleep 60");
    for dir in group.dirs() {
        // A cpuset child takes no process before it has cpus; it is left where it is.
        if !dir.join("cpuset.cpus").exists() {
            std::fs::create_dir(dir.join("child")).unwrap();
            std::fs::write(dir.join("child/cgroup.procs"), pid.to_string()).unwrap();
        }
    }
    assert_eq!(group.group.procs().unwrap(), [pid]);
    group.group.kill().unwrap();
    assert_eq!(group.wait().0, None);
    group.group.delete().unwrap();
    assert!(group.dirs().iter().all(|dir| !dir.exists()));
}

#[test]
fn an_exec_group_dies_alone() {
    let Some(mut group) = Group::new("exec", "{}") else { return };
    let main = group.run("exec sleep 60");
    let exec = group.group.exec_group("e1").unwrap().unwrap();
    assert!(group.group.exec_group("../e2").is_err());
    let mut child = Command::new("/bin/sh").args(["-c", "sleep 60 & sleep 60; :"]).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    group.group.join(pid).unwrap();
    exec.join(pid).unwrap();
    assert!(group.group.procs().unwrap().contains(&pid), "it is still the container's");
    exec.kill().unwrap();
    child.wait().unwrap();
    eventually("only the container's process", || group.group.procs().unwrap() == [main]);
    exec.delete().unwrap();
}

#[test]
fn an_oom_is_counted_and_told() {
    if !has_v1() {
        return;
    }
    let Some(mut group) = Group::new("oom", r#"{"memory":{"limit":20971520,"swap":20971520}}"#) else {
        return;
    };
    let watch = group.group.oom_watch().unwrap().unwrap();
    assert_eq!(group.group.oom_kills(), Some(0));
    group.run("exec tail /dev/zero");
    assert_eq!(group.wait().0, None, "by signal");
    let mut fds = [rustix::event::PollFd::new(&watch, rustix::event::PollFlags::IN)];
    let second = rustix::fs::Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&second)).unwrap(), 1);
    watch.acknowledge().unwrap();
    assert!(group.group.oom_kills().unwrap() >= 1);
}

/// systemd removes a scope with its last process: whoever looks later must not take an OOM kill for another one.
#[test]
fn an_oom_is_known_of_a_group_that_is_gone() {
    if !has_v1() {
        return;
    }
    let limits = r#"{"memory":{"limit":20971520,"swap":20971520}}"#;
    let (Some(mut struck), Some(mut killed)) =
        (Group::new("oom-gone", limits), Group::new("kill-gone", limits))
    else {
        return;
    };
    let _watches = (struck.group.oom_watch().unwrap(), killed.group.oom_watch().unwrap());
    struck.run("exec tail /dev/zero");
    assert_eq!(struck.wait().0, None, "by signal");
    killed.run("exec sleep 1000");
    killed.group.kill().unwrap();
    assert_eq!(killed.wait().0, None, "by signal");
    struck.group.delete().unwrap();
    killed.group.delete().unwrap();
    assert!(struck.group.oom_kills().unwrap() >= 1);
    // The kernel tells of the removal some time later, and that must not count.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(killed.group.oom_kills(), Some(0));
    assert!(struck.group.oom_kills().unwrap() >= 1);
}

#[test]
fn pids_are_limited() {
    if !has_v1() {
        return;
    }
    let Some(mut group) = Group::new("pids", r#"{"pids":{"limit":1}}"#) else { return };
    group.run("(true) 2>/dev/null || exit 3; exit 0");
    assert_ne!(group.wait().0, Some(0), "the shell cannot fork");
}

#[test]
fn devices_are_limited() {
    if !has_v1() {
        return;
    }
    let json = r#"{"devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":1,"minor":11,"access":"r"}]}"#;
    let Some(mut group) = Group::new("devices", json) else { return };
    group.run(
        "echo x >/dev/null && echo null; \
         (: </dev/kmsg) 2>/dev/null && echo kmsg-r; \
         (: >>/dev/kmsg) 2>/dev/null && echo kmsg-w; \
         (: </dev/mem) 2>/dev/null && echo mem; :",
    );
    let (_, text) = group.wait();
    let kmsg = if Path::new("/dev/kmsg").exists() { "kmsg-r\n" } else { "" };
    assert_eq!(text, format!("null\n{kmsg}"));
}

#[test]
fn stats_tell_what_was_used() {
    let Some(mut group) = Group::new("stats", "{}") else { return };
    let pid = group.run("i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; sleep 60");
    let used = || group.group.stats().cpu.usage_ns.unwrap_or(0);
    eventually("cpu time", || used() > 5_000_000);
    let stats = group.group.stats();
    assert!(stats.memory.usage.unwrap() > 0);
    assert!(stats.memory.working_set.unwrap() <= stats.memory.usage.unwrap());
    assert_eq!(stats.memory.limit, None, "no limit is not a number");
    assert_eq!(stats.memory.available, None);
    assert!(stats.memory.page_faults.is_some() && stats.memory.rss.is_some());
    assert!(stats.pids.current.unwrap() >= 1);
    assert_eq!(group.group.procs().unwrap()[0], pid);
}
