//! What is read is written again as the same, and what is wrong is named with its place.

use super::{Capability, Process, Spec};
use serde_json::{Value, json};

/// A bit of everything.
fn whole() -> Value {
    json!({
        "ociVersion": "1.3.0",
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "h",
        "annotations": {"a": "b"},
        "mounts": [{"destination": "/x", "type": "bind", "source": "/y", "options": ["rbind"],
                    "uidMappings": [{"hostID": 5, "containerID": 0, "size": 7}]}],
        "hooks": {"createRuntime": [{"path": "/bin/true", "args": ["true"], "timeout": -1}]},
        "process": {
            "terminal": false, "user": {"uid": 1, "gid": 2, "umask": 18, "additionalGids": [3]},
            "args": ["true"], "env": ["A=1"], "cwd": "/", "consoleSize": {"height": 1, "width": 2},
            "capabilities": {"bounding": ["CAP_KILL", "CAP_SYS_ADMIN"]},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 5, "soft": 4}],
            "ioPriority": {"class": "IOPRIO_CLASS_IDLE", "priority": 3},
            "scheduler": {"policy": "SCHED_DEADLINE", "flags": ["SCHED_FLAG_DL_OVERRUN"], "runtime": 5},
            "execCPUAffinity": {"initial": "0-3,7", "final": "1"}
        },
        "linux": {
            "sysctl": {"net.a": "1"},
            "namespaces": [{"type": "mount"}, {"type": "network", "path": "/n"}],
            "devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 2, "fileMode": 438}],
            "resources": {
                "devices": [{"allow": false, "access": "rwm"}],
                "memory": {"limit": -1, "disableOOMKiller": true, "kernelTCP": 6},
                "blockIO": {"throttleReadBpsDevice": [{"major": 1, "minor": 2, "rate": 3}]},
                "hugepageLimits": [{"pageSize": "2MB", "limit": 4}],
                "unified": {"memory.high": "5"}
            },
            "seccomp": {
                "defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"],
                "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW",
                              "args": [{"index": 0, "value": u64::MAX, "op": "SCMP_CMP_MASKED_EQ"}]}]
            },
            "timeOffsets": {"monotonic": {"secs": -4, "nanosecs": 5}}
        }
    })
}

fn complaint(pointer: &str, value: Value) -> String {
    let mut all = whole();
    *all.pointer_mut(pointer).expect("there is such a place") = value;
    serde_json::from_value::<Spec>(all).expect_err("that is wrong").to_string()
}

#[test]
fn what_is_read_is_written_again() {
    let spec: Spec = serde_json::from_value(whole()).expect("that is right");
    assert_eq!(serde_json::to_value(&spec).expect("a value"), whole());
}

#[test]
fn a_wrong_value_is_named_with_its_place() {
    for (pointer, value, place) in [
        ("/ociVersion", json!(1), "ociVersion: "),
        ("/process/args/0", json!(1), "process.args[0]: "),
        ("/process/user/uid", json!(-1), "process.user.uid: "),
        ("/process/user/uid", json!(4_294_967_296u64), "process.user.uid: "),
        ("/process/user/uid", json!(1.5), "process.user.uid: "),
        ("/process/user", Value::Null, "process.user: "),
        ("/process/rlimits/0/type", json!("RLIMIT_X"), "process.rlimits[0].type: "),
        ("/process/execCPUAffinity/final", json!("1-"), "process.execCPUAffinity.final: "),
        ("/linux/sysctl/net.a", json!(1), "linux.sysctl.net.a: "),
        ("/linux/seccomp/syscalls/0/args/0/op", json!("="), "linux.seccomp.syscalls[0].args[0].op: "),
        ("/process/capabilities/bounding/1", json!("CAP_X"), "process.capabilities.bounding[1]: "),
    ] {
        let text = complaint(pointer, value);
        assert!(text.starts_with(place), "{pointer}: {text}");
    }
}

#[test]
fn what_must_be_there_is_missed() {
    let text = complaint("/process", json!({"user": {}}));
    assert_eq!(text, "process: missing field `cwd`");
}

#[test]
fn what_nobody_knows_is_passed_over_and_null_is_nothing() {
    let process: Process =
        serde_json::from_value(json!({"user": {"x": 1}, "cwd": "/", "args": null, "new": []}))
            .expect("right");
    assert_eq!(process.args, None);
}

#[test]
fn capabilities_come_in_any_case() {
    for text in ["syslog", "CAP_SYSLOG", "cap_SYSLOG"] {
        assert_eq!(text.parse(), Ok(Capability::Syslog));
    }
    assert!("SYSLOGS".parse::<Capability>().is_err());
}
