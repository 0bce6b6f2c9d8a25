//! Capabilities, no_new_privs, and the seccomp filter.

mod seccomp;

use super::row::{Row, row};
use berth_e2e::bundle::Bundle;
use serde_json::{Value, json};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [capabilities(), more_capabilities(), others(), exec(), seccomp::rows()].into_iter().flatten().collect()
}

const CAPS: &str = "grep ^Cap /proc/self/status";

fn caps(sets: Value) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| spec["process"]["capabilities"] = sets.clone()
}

fn one(list: &[&str]) -> Value {
    json!({"bounding": list, "effective": list, "permitted": list})
}

fn capabilities() -> Vec<Row> {
    vec![
        row("capabilities: the usual").args(&["grep", "^Cap", "/proc/self/status"]).same(&["CapInh:\t0000000000000000", "CapEff:\t00000000a80425fb"]),
        row("capabilities: none").change(caps(json!({}))).sh(CAPS).same(&["CapBnd:\t0000000000000000"]),
        row("capabilities: not even the word")
            .change(|spec, _| drop(spec["process"].as_object_mut().and_then(|map| map.remove("capabilities"))))
            .sh(CAPS)
            .differs("CapEff:\t0000000000000000", "CapPrm:\t000001ff", "who asks for none gets none"),
        row("capabilities: bounding only").change(caps(json!({"bounding": ["CAP_KILL"]}))).sh(CAPS).same(&["CapBnd:\t0000000000000020"]),
        row("capabilities: permitted, not effective")
            .change(caps(json!({"bounding": ["CAP_KILL", "CAP_CHOWN"], "permitted": ["CAP_KILL"], "effective": []})))
            .args(&["grep", "^Cap", "/proc/self/status"])
            .same(&["CapBnd:\t0000000000000021"]),
        row("capabilities: inheritable as asked")
            .change(caps(json!({"bounding": ["CAP_KILL"], "permitted": ["CAP_KILL"], "effective": ["CAP_KILL"], "inheritable": ["CAP_KILL"]})))
            .sh(CAPS)
            .same(&["CapInh:\t0000000000000020"]),
        row("capabilities: ambient, for a user that is not root")
            .change(|spec, _| {
                let list = json!(["CAP_NET_BIND_SERVICE"]);
                spec["process"]["user"] = json!({"uid": 1000, "gid": 1000});
                spec["process"]["capabilities"] =
                    json!({"bounding": list, "permitted": list, "effective": list, "inheritable": list, "ambient": list});
            })
            .sh(CAPS)
            .same(&["CapPrm:\t0000000000000400", "CapAmb:\t0000000000000400"]),
        row("capabilities: another user has none")
            .change(|spec, _| spec["process"]["user"] = json!({"uid": 1000, "gid": 1000}))
            .args(&["grep", "^Cap", "/proc/self/status"])
            .same(&["CapEff:\t0000000000000000"]),
        row("capabilities: what root may not")
            .change(caps(one(&[])))
            .sh("chown 5 /etc/passwd; mknod /tmp/x c 1 3; hostname x; mount -t tmpfs t /mnt")
            .same(&["Operation not permitted"]),
        row("capabilities: an unknown name").change(caps(one(&["CAP_NONSENSE", "CAP_KILL"]))).sh(CAPS)
            .differs("process.capabilities", "CapEff:\t0000000000000020", "a name that nobody knows is a slip of the pen, not a wish to do without"),
    ]
}

fn more_capabilities() -> Vec<Row> {
    vec![
        row("capabilities: one that this host cannot give")
            .change(caps(one(&["CAP_SYS_RESOURCE", "CAP_KILL"])))
            .needs("no-sys-resource")
            .sh("grep ^CapEff /proc/self/status")
            .differs(
                "CapEff:\t0000000000000020",
                "unable to apply caps",
                "the same pod has to start on hosts that can give less",
            ),
    ]
}

fn others() -> Vec<Row> {
    let nnp =
        |value: bool| move |spec: &mut Value, _: &Bundle| spec["process"]["noNewPrivileges"] = json!(value);
    vec![
        row("no new privileges: yes")
            .change(nnp(true))
            .sh("grep NoNewPrivs /proc/self/status")
            .same(&["NoNewPrivs:\t1"]),
        row("no new privileges: no")
            .change(nnp(false))
            .sh("grep NoNewPrivs /proc/self/status")
            .same(&["NoNewPrivs:\t0"]),
        row("apparmor: a profile where there is none")
            .needs("no-apparmor")
            .change(|spec, _| spec["process"]["apparmorProfile"] = json!("some-profile"))
            .refused(&["process.apparmorProfile"]),
        row("apparmor: unconfined where there is none")
            .needs("no-apparmor")
            .change(|spec, _| spec["process"]["apparmorProfile"] = json!("unconfined"))
            .args(&["true"])
            .differs("[exit 0]", "unable to apply apparmor profile", "the word asks for nothing"),
        row("selinux: a label where there is none")
            .change(|spec, _| spec["process"]["selinuxLabel"] = json!("system_u:system_r:container_t:s0"))
            .refused(&["process.selinuxLabel"]),
        row("selinux: a mount label where there is none")
            .change(|spec, _| spec["linux"]["mountLabel"] = json!("system_u:object_r:container_file_t:s0"))
            .refused(&["linux.mountLabel"]),
    ]
}

fn exec() -> Vec<Row> {
    let up = |script: &'static str| {
        move |bundle: &Bundle| {
            bundle.change(|spec| spec["process"]["args"] = json!(["sleep", "100000"]))?;
            bundle.up()?;
            Ok(bundle.exec(script)?.seen(bundle))
        }
    };
    vec![
        row("exec: the capabilities of the container").see(up(CAPS)).same(&["CapEff:\t00000000a80425fb"]),
        row("exec: its no_new_privs").see(up("grep NoNewPrivs /proc/self/status")).same(&["NoNewPrivs:\t1"]),
        row("exec: its rlimits")
            .change(|spec, _| spec["process"]["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "soft": 77, "hard": 99}]))
            .see(up("grep files /proc/self/limits"))
            .same(&["77                   99"]),
        row("exec: its seccomp filter")
            .change(|spec, _| {
                spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW",
                    "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 71}]});
            })
            .see(up("mkdir /x; grep ^Seccomp: /proc/self/status"))
            .same(&["Protocol error", "Seccomp:\t2"]),
        row("exec: its oom score")
            .change(|spec, _| spec["process"]["oomScoreAdj"] = json!(300))
            .see(up("cat /proc/self/oom_score_adj"))
            .same(&["300"]),
        row("exec: its personality")
            .change(|spec, _| spec["linux"]["personality"] = json!({"domain": "LINUX32"}))
            .see(up("uname -m"))
            .same(&["i686"]),
    ]
}
