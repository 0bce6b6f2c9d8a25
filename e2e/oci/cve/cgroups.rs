//! A container's group: not to be written where it is shown read-only, not to be left, not to be changed by words in annotations.

use super::race::{bundle, once, story};
use anyhow::Result;
use berth_e2e::check;
use serde_json::json;

/// Without a cgroup namespace the mount shows the container's own group, and nothing of it can be written.
pub(super) fn read_only_without_a_namespace() -> Result<()> {
    let script = "cd /sys/fs/cgroup; for d in . *; do mkdir $d/evil 2>/dev/null && echo MADE $d;
        for f in $d/cgroup.procs $d/tasks; do [ -e $f ] && echo 0 2>/dev/null > $f && echo JOINED $f; done; done;
        find . -maxdepth 2 -name init.scope -o -maxdepth 2 -name system.slice; cat /proc/self/cgroup | wc -l; true";
    let bundle = bundle(script)?;
    let drop = |c: &mut serde_json::Value| {
        if let Some(list) = c["linux"]["namespaces"].as_array_mut() {
            list.retain(|n| n["type"] != "cgroup");
        }
    };
    bundle.change(drop)?;
    let ran = once(&bundle)?;
    check!(ran.code == 0 && !ran.out.contains("MADE") && !ran.out.contains("JOINED"), "{}", story(&ran));
    check!(!ran.out.contains("scope") && !ran.out.contains("slice"), "the host's groups: {}", story(&ran));
    // The trap is real: where it is not read-only, it can be written.
    bundle.change(|c| {
        for mount in c["mounts"].as_array_mut().into_iter().flatten() {
            if mount["destination"] == "/sys/fs/cgroup" {
                mount["options"] = json!(["nosuid", "noexec", "nodev"]);
            }
        }
    })?;
    let ran = once(&bundle)?;
    check!(ran.out.contains("MADE") || ran.out.contains("JOINED"), "{}", story(&ran));
    check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
    Ok(())
}

/// A container with a user namespace is in the group that was asked for, in every hierarchy.
pub(super) fn a_user_namespace_stays_in_its_group() -> Result<()> {
    let bundle = bundle("exec sleep 1000")?;
    let map = json!([{"containerID": 0, "hostID": 200_000, "size": 65_536}]);
    bundle.change(|c| {
        if let Some(list) = c["linux"]["namespaces"].as_array_mut() {
            list.push(json!({"type": "user"}));
        }
        c["linux"]["uidMappings"] = map.clone();
        c["linux"]["gidMappings"] = map.clone();
    })?;
    bundle.up()?;
    let groups = bundle.cgroups("");
    check!(!groups.is_empty(), "no group of the container's anywhere");
    let pid = bundle.pid()?.to_string();
    for dir in groups {
        let file = dir.join("cgroup.procs");
        let members = std::fs::read_to_string(&file)?;
        check!(members.lines().any(|line| line == pid), "{pid} is not in {}: {members}", file.display());
    }
    Ok(())
}

/// Annotations come from whoever writes a pod. None reaches a limit, or a property of a unit.
pub(super) fn annotations_change_nothing() -> Result<()> {
    let bundle = bundle("exec sleep 1000")?;
    let evil = bundle.text("evil");
    bundle.change(|c| {
        c["linux"]["resources"]["memory"] = json!({"limit": 64 << 20});
        c["linux"]["resources"]["pids"] = json!({"limit": 17});
        c["annotations"] = json!({
            "org.systemd.property.ExecStartPre": format!("[('/bin/touch', ['touch', '{evil}'], true)]"),
            "org.systemd.property.MemoryMax": "uint64 1",
            "io.kubernetes.cri-o.UnifiedCgroup": "pids.max=1000",
            "io.kubernetes.cri.oom-score-adj": "-1000",
            "run.oci.systemd.subgroup": "../../evil",
            "run.oci.keep_original_groups": "1",
            "run.oci.hooks.stderr": evil,
            "dev.berth.unknown": "x",
        });
    })?;
    bundle.up()?;
    let pids = bundle.cgroup_file(&["pids.max"])?;
    check!(pids == "17", "pids {pids}");
    let memory = bundle.cgroup_file(&["memory.limit_in_bytes", "memory.max"])?;
    check!(memory == (64 << 20).to_string(), "memory {memory}");
    check!(!bundle.path("evil").exists(), "an annotation ran a program");
    Ok(())
}
