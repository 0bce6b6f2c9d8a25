//! A container runs, is isolated, ends, and leaves nothing.

use serde_json::json;

use super::Test;
use super::bundle::{Bundle, finish};

pub(crate) const TESTS: &[Test] = &[
    ("basics::runs_and_returns_its_code", runs_and_returns_its_code),
    ("basics::sees_its_own_namespaces", sees_its_own_namespaces),
    ("basics::has_only_three_descriptors", has_only_three_descriptors),
    ("basics::overlay_writes_go_to_the_upper_layer", overlay_writes_go_to_the_upper_layer),
    ("basics::is_in_its_cgroup_everywhere", is_in_its_cgroup_everywhere),
    ("basics::limits_reach_the_cgroup", limits_reach_the_cgroup),
    ("basics::devices_are_denied_unless_named", devices_are_denied_unless_named),
    ("basics::environment_keeps_its_order", environment_keeps_its_order),
    ("basics::environment_values_are_bytes", environment_values_are_bytes),
    ("basics::signals_start_at_default", signals_start_at_default),
    ("basics::waits_for_start", waits_for_start),
    ("basics::dies_with_its_creator_before_start", dies_with_its_creator_before_start),
    ("basics::joins_a_pid_namespace", joins_a_pid_namespace),
    ("basics::time_namespace_has_offsets", time_namespace_has_offsets),
];

fn runs_and_returns_its_code() {
    let outcome = Bundle::new("echo hello; exit 7").run();
    assert_eq!((outcome.out.as_str(), outcome.code), ("hello\n", 7));
}

fn sees_its_own_namespaces() {
    let out = Bundle::new(
        "hostname; echo $$; ls -d /proc/[0-9]* | wc -l; cat /proc/net/dev | wc -l; ip link show lo",
    )
    .output();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "box");
    assert_eq!(lines[1], "1");
    // Two lines of heading and lo, which is up.
    assert_eq!(lines[3], "3");
    assert!(lines[4].contains("UP"), "{out}");
}

fn has_only_three_descriptors() {
    let out = Bundle::new("ls /proc/self/fd | tr '\\n' ' '").output();
    // ls itself holds 3 for the directory.
    assert_eq!(out, "0 1 2 3 ");
}

fn overlay_writes_go_to_the_upper_layer() {
    let b = Bundle::new("echo x > /etc/new && cat /etc/passwd | wc -l && mount | grep ' / '").with_overlay();
    let out = b.output();
    assert!(out.contains("overlay"), "{out}");
    assert!(b.dir.join("upper/etc/new").exists());
    assert!(!b.rootfs().join("etc/new").exists());
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    assert!(!table.contains(&b.id), "a mount is left on the host");
}

fn is_in_its_cgroup_everywhere() {
    let mut b = Bundle::new("cat /proc/self/cgroup");
    // In the host's cgroup namespace the paths are the host's.
    b.spec["linux"]["namespaces"] = json!([{"type": "pid"}, {"type": "mount"}]);
    b.spec.as_object_mut().expect("object").remove("hostname");
    for line in b.output().lines() {
        let path = line.splitn(3, ':').nth(2).expect("path");
        assert!(path.ends_with(&format!("/{}", b.id)), "{line}");
    }
}

fn limits_reach_the_cgroup() {
    let mut b = Bundle::new("exec sleep 30");
    b.spec["linux"]["resources"] = json!({"memory": {"limit": 64 << 20}, "pids": {"limit": 17}});
    let (created, _reader) = b.launch().expect("launch");
    let pids = created.cgroup.v1_dirs().into_iter().find(|d| d.join("pids.max").exists());
    let pids = pids.or_else(|| created.cgroup.unified_path()).expect("pids");
    assert_eq!(std::fs::read_to_string(pids.join("pids.max")).expect("read").trim(), "17");
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    assert_eq!(finish(&created), 137);
}

fn devices_are_denied_unless_named() {
    let script = "mknod /tmp/ram b 1 1 && (head -c1 /tmp/ram || echo denied); mknod /tmp/mem c 1 11 && (head -c1 /tmp/mem || echo denied); head -c1 /dev/zero | wc -c";
    let rules = [
        json!({}),
        json!({"devices": [{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw"}]}),
    ];
    for resources in rules {
        let mut b = Bundle::new(script);
        let caps = json!(["CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_SYSLOG"]);
        b.spec["process"]["capabilities"] = json!({"bounding": caps, "permitted": caps, "effective": caps});
        b.spec["linux"]["resources"] = resources;
        b.mount(json!({"destination": "/tmp", "type": "tmpfs", "source": "x", "options": ["dev"]}));
        let out = b.output();
        assert_eq!(out.matches("denied").count(), 2, "{out}");
        assert!(out.contains("Operation not permitted") && out.ends_with("1\n"), "{out}");
    }
}

fn environment_keeps_its_order() {
    let mut b = Bundle::new("");
    b.spec["process"]["args"] = json!(["env"]);
    b.spec["process"]["env"] = json!(["Z=1", "PATH=/bin", "A=ü \n2", "M="]);
    assert_eq!(b.output(), "Z=1\nPATH=/bin\nA=ü \n2\nM=\nHOME=/root\n");
}

fn environment_values_are_bytes() {
    let mut b = Bundle::new("printf %s \"$A\" | wc -c; env | cut -c1 | tr -d '\\n'; exec sleep 30");
    b.spec["process"]["env"] = json!(["PATH=/bin", "A=old", "Z=1"]);
    // A=\xff\xfe takes the place of A=old, B=\x80 comes last.
    b.spec["annotations"] = json!({"dev.berth.env-bytes": "[\"413dfffe\", \"423d80\"]"});
    let (created, _reader) = b.launch().expect("launch");
    let own = super::bundle::exec(&created, super::bundle::argv(&["sh", "-c", "printf %s \"$A$B\" | wc -c"]))
        .expect("exec");
    assert_eq!(own.out, "3\n");
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
    b.spec["annotations"] = json!({"dev.berth.env-bytes": "[\"41\"]"});
    assert!(b.try_run().expect_err("no =").to_string().contains("annotations"));
}

fn signals_start_at_default() {
    let out =
        Bundle::new("grep -E '^Sig(Blk|Ign)' /proc/self/status; grep Cpus_allowed_list /proc/self/status")
            .output();
    let own = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("online");
    for line in out.lines().filter(|l| l.starts_with("Sig")) {
        assert!(line.ends_with("0000000000000000"), "{line}");
    }
    assert!(out.contains(own.trim()), "{out}");
}

fn waits_for_start() {
    let b = Bundle::new("echo ran");
    let (mut reader, stdio) = super::bundle::pipes();
    let mut created = b.create_with(stdio).expect("create");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!berth_sys::pidfd::has_ended(&created.pidfd));
    berth_runtime::start(&mut created).expect("start");
    assert!(berth_runtime::start(&mut created).is_err(), "started twice");
    let mut out = String::new();
    std::io::Read::read_to_string(&mut reader, &mut out).expect("read");
    assert_eq!((out.as_str(), finish(&created)), ("ran\n", 0));
}

fn dies_with_its_creator_before_start() {
    let b = Bundle::new("echo never");
    let (_, stdio) = super::bundle::pipes();
    let created = b.create_with(stdio).expect("create");
    let pidfd = created.pidfd.try_clone().expect("dup");
    let cgroup = created.cgroup.path().clone();
    // The channel closes with the value, as it would with the process.
    drop(created);
    assert_ne!(berth_sys::pidfd::wait(&pidfd).expect("wait").shell_code(), 0);
    berth_cgroup::Cgroup::open(&super::bundle::hierarchies(), &cgroup)
        .expect("open")
        .delete()
        .expect("delete");
}

fn joins_a_pid_namespace() {
    let first = Bundle::new("exec sleep 30");
    let (created, _reader) = first.launch().expect("first");
    // The first one's shell may not have become `sleep` yet.
    let mut b = Bundle::new(
        "until grep -q ^sleep /proc/1/cmdline; do :; done; cat /proc/1/cmdline | tr '\\0' ' '; test $$ -gt 1 && echo joined",
    );
    b.spec["linux"]["namespaces"][0] =
        json!({"type": "pid", "path": format!("/proc/{}/ns/pid", created.pid)});
    let out = b.output();
    assert_eq!(out, "sleep 30 joined\n");
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn time_namespace_has_offsets() {
    let mut b = Bundle::new("cut -d' ' -f1 /proc/uptime");
    b.spec["linux"]["namespaces"].as_array_mut().expect("list").push(json!({"type": "time"}));
    b.spec["linux"]["timeOffsets"] = json!({"boottime": {"secs": 1_000_000_000}});
    let uptime: f64 = b.output().trim().parse().expect("number");
    assert!(uptime > 1e9, "{uptime}");
}
