//! Who the program is: users, capabilities, limits, filters.

use serde_json::json;

use super::Test;
use super::bundle::Bundle;
use berth_runtime::UserLookup;

pub(crate) const TESTS: &[Test] = &[
    ("identity::ids_and_groups", ids_and_groups),
    ("identity::user_of_the_image", user_of_the_image),
    ("identity::capabilities", capabilities),
    ("identity::ambient_capabilities", ambient_capabilities),
    ("identity::limits", limits),
    ("identity::umask_and_oom_score", umask_and_oom_score),
    ("identity::no_new_privileges_may_be_false", no_new_privileges_may_be_false),
    ("identity::seccomp_filter", seccomp_filter),
    ("identity::seccomp_without_no_new_privileges", seccomp_without_no_new_privileges),
    ("identity::memory_policy_and_scheduling", memory_policy_and_scheduling),
    ("identity::user_namespace", user_namespace),
    ("identity::overlay_in_a_user_namespace", overlay_in_a_user_namespace),
];

fn ids_and_groups() {
    let mut b = Bundle::new("id; stat -c %u /proc/self/fd/1 -L; echo x > /dev/stdout");
    b.spec["process"]["user"] = json!({"uid": 1000, "gid": 1001, "additionalGids": [5, 50]});
    let out = b.output();
    assert!(out.contains("uid=1000 gid=1001 groups=") && out.contains("50(staff)"), "{out}");
    assert!(out.ends_with("1000\nx\n"), "{out}");
}

fn user_of_the_image() {
    let mut b = Bundle::new("id -u; id -g; id -G; echo $HOME");
    b.user = Some(UserLookup { name: "www".into(), merge_image_groups: true, ..UserLookup::default() });
    assert_eq!(b.output(), "33\n34\n34 50\n/home/www\n");
}

fn capabilities() {
    let out = Bundle::new("grep ^Cap /proc/self/status").output();
    let of = |name: &str| out.lines().find_map(|l| l.strip_prefix(name)).map(|l| l.trim().to_owned());
    assert_eq!(of("CapEff:").as_deref(), Some("0000000000000021"));
    assert_eq!(of("CapPrm:").as_deref(), Some("0000000000000021"));
    assert_eq!(of("CapBnd:").as_deref(), Some("0000000000000021"));
    assert_eq!(of("CapInh:").as_deref(), Some("0000000000000000"));
    assert_eq!(of("CapAmb:").as_deref(), Some("0000000000000000"));
}

fn ambient_capabilities() {
    let mut b = Bundle::new("grep -E '^Cap(Eff|Amb)' /proc/self/status | cut -f2");
    let one = json!(["CAP_NET_BIND_SERVICE"]);
    b.spec["process"]["user"] = json!({"uid": 7, "gid": 7});
    b.spec["process"]["capabilities"] =
        json!({"bounding": one, "permitted": one, "effective": one, "inheritable": one, "ambient": one});
    assert_eq!(b.output(), "0000000000000400\n0000000000000400\n");
}

fn limits() {
    let mut b = Bundle::new("ulimit -n; ulimit -Hn; ulimit -c");
    b.spec["process"]["rlimits"] = json!([
        {"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200},
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 0}
    ]);
    assert_eq!(b.output(), "100\n200\n0\n");
    b.spec["process"]["rlimits"] = json!([{"type": "RLIMIT_MEMLOCK", "soft": u64::MAX, "hard": u64::MAX}]);
    b.spec["process"]["args"] = json!(["true"]);
    assert_eq!(b.run().code, 0, "a limit that cannot be raised is clamped");
}

fn umask_and_oom_score() {
    let mut b = Bundle::new("umask; cat /proc/self/oom_score_adj");
    b.spec["process"]["user"]["umask"] = json!(0o077);
    b.spec["process"]["oomScoreAdj"] = json!(500);
    assert_eq!(b.output(), "0077\n500\n");
    b.spec["process"]["oomScoreAdj"] = json!(-900);
    assert_eq!(b.run().code, 0, "a value that cannot be had is no reason to fail");
}

fn no_new_privileges_may_be_false() {
    let mut b = Bundle::new("grep NoNewPrivs /proc/self/status | cut -f2");
    assert_eq!(b.output(), "1\n");
    b.spec["process"]["noNewPrivileges"] = json!(false);
    assert_eq!(b.output(), "0\n");
}

const FILTER: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
    "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}"#;

fn seccomp_filter() {
    let mut b = Bundle::new("mkdir /tmp/x 2>&1; grep Seccomp: /proc/self/status");
    b.spec["linux"]["seccomp"] = serde_json::from_str(FILTER).expect("filter");
    let out = b.output();
    assert!(out.contains("not implemented") && out.contains("\t2"), "{out}");
}

fn seccomp_without_no_new_privileges() {
    let mut b = Bundle::new("mkdir /tmp/x 2>&1; grep -E 'Seccomp:|CapEff|NoNew' /proc/self/status");
    b.spec["process"]["noNewPrivileges"] = json!(false);
    b.spec["process"]["user"] = json!({"uid": 1000, "gid": 1000});
    b.spec["linux"]["seccomp"] = serde_json::from_str(FILTER).expect("filter");
    let out = b.output();
    assert!(out.contains("not implemented") && out.contains("CapEff:\t0000000000000000"), "{out}");
}

fn user_namespace() {
    let mut b = Bundle::new(
        "id -u; cat /proc/self/uid_map; touch /tmp/mine && stat -c %u /tmp/mine; grep -c ^ /proc/self/gid_map; hostname",
    );
    let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
    b.spec["linux"]["namespaces"].as_array_mut().expect("list").push(json!({"type": "user"}));
    b.spec["linux"]["uidMappings"] = map.clone();
    b.spec["linux"]["gidMappings"] = map;
    std::os::unix::fs::chown(b.rootfs().join("tmp"), Some(100_000), Some(100_000)).expect("chown");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&b.dir, open).expect("chmod");
    let out = b.output();
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(words, ["0", "0", "100000", "65536", "0", "1", "box"], "{out}");
}

fn overlay_in_a_user_namespace() {
    let mut b = Bundle::new("stat -c %u /etc/passwd /bin/busybox / ; echo x >> /etc/passwd; echo y > /new; stat -c %u /etc/passwd /new").with_overlay();
    let map = json!([{"containerID": 0, "hostID": 200_000, "size": 65536}]);
    b.spec["linux"]["namespaces"].as_array_mut().expect("list").push(json!({"type": "user"}));
    b.spec["linux"]["uidMappings"] = map.clone();
    b.spec["linux"]["gidMappings"] = map;
    b.spec["process"]["capabilities"]["effective"] = json!(["CAP_CHOWN"]);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&b.dir, open).expect("chmod");
    assert_eq!(b.output(), "0\n0\n0\n0\n0\n");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(b.dir.join("upper/new")).expect("written").uid(), 200_000);
    assert_eq!(std::fs::metadata(b.rootfs().join("etc/passwd")).expect("layer").uid(), 0);
}

fn memory_policy_and_scheduling() {
    let mut b = Bundle::new(
        "cat /proc/self/numa_maps 2>/dev/null | head -1 | cut -d' ' -f2; cut -d' ' -f19 /proc/self/stat",
    );
    b.spec["linux"]["memoryPolicy"] = json!({"mode": "MPOL_BIND", "nodes": "0"});
    b.spec["process"]["scheduler"] = json!({"policy": "SCHED_BATCH", "nice": 5});
    b.spec["process"]["ioPriority"] = json!({"class": "IOPRIO_CLASS_BE", "priority": 6});
    match b.try_run() {
        Ok(outcome) => assert!(outcome.out.trim_start_matches("bind:0").trim() == "5", "{}", outcome.out),
        // A kernel without NUMA has no such call.
        Err(error) => assert!(error.to_string().contains("set memory policy: ENOSYS"), "{error}"),
    }
}
