//! An exec has everything that the first process has.

use std::sync::Arc;

use serde_json::json;

use super::Test;
use super::bundle::{Bundle, argv, exec, finish};
use berth_runtime::ExecProgram;

pub(crate) const TESTS: &[Test] = &[
    ("exec::inherits_everything", inherits_everything),
    ("exec::is_looked_up_in_the_containers_path", is_looked_up_in_the_containers_path),
    ("exec::takes_a_process_of_its_own", takes_a_process_of_its_own),
    ("exec::failures_name_path_and_errno", failures_name_path_and_errno),
    ("exec::in_a_user_namespace", in_a_user_namespace),
    ("exec::has_the_containers_keyring", has_the_containers_keyring),
    ("exec::kill_all_leaves_a_paused_one_paused", kill_all_leaves_a_paused_one_paused),
    ("exec::the_seccomp_agent_is_told_the_right_process", the_seccomp_agent_is_told_the_right_process),
    ("exec::after_everything_was_killed", after_everything_was_killed),
];

fn inherits_everything() {
    let script = "grep -E '^(Cap|Seccomp:|NoNew|Uid|Groups)' /proc/self/status; umask; ulimit -n; env | sort; pwd; \
                  cat /proc/self/oom_score_adj; hostname; for n in mnt pid net ipc uts cgroup user; do readlink /proc/self/ns/$n; done; cat /proc/self/cgroup";
    let mut b = Bundle::new(&format!("{script}; echo END; exec sleep 30"));
    b.spec["process"]["user"] = json!({"uid": 33, "gid": 34, "additionalGids": [50], "umask": 0o027});
    b.spec["process"]["env"] = json!(["PATH=/bin", "A=1"]);
    b.spec["process"]["cwd"] = json!("/tmp");
    b.spec["process"]["oomScoreAdj"] = json!(77);
    b.spec["process"]["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "soft": 99, "hard": 99}]);
    b.spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mount"], "action": "SCMP_ACT_ERRNO"}]});
    let (created, reader) = b.launch().expect("launch");
    let mut first = String::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(reader)) {
        let line = line.expect("line");
        if line == "END" {
            break;
        }
        first.push_str(&line);
        first.push('\n');
    }
    let outcome = exec(&created, argv(&["sh", "-c", script])).expect("exec");
    assert_eq!(outcome.code, 0);
    assert!(first.contains("Seccomp:\t2") && first.contains("HOME=/home/www"), "{first}");
    // busybox's sh counts its own depth.
    assert_eq!(outcome.out, first);
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn is_looked_up_in_the_containers_path() {
    let mut b = Bundle::new("exec sleep 30");
    std::fs::create_dir(b.rootfs().join("odd")).expect("mkdir");
    std::os::unix::fs::symlink("/bin/busybox", b.rootfs().join("odd/echo")).expect("link");
    b.spec["process"]["env"] = json!(["PATH=/odd:/bin"]);
    let (created, _reader) = b.launch().expect("launch");
    assert_eq!(exec(&created, argv(&["echo", "hi"])).expect("exec").out, "hi\n");
    let error = exec(&created, argv(&["uname"])).expect_err("not there").to_string();
    assert!(error.contains("uname: ENOENT") && error.contains("/odd:/bin"), "{error}");
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn takes_a_process_of_its_own() {
    let b = Bundle::new("exec sleep 30");
    let (created, _reader) = b.launch().expect("launch");
    let process = json!({"args": ["sh", "-c", "id -u; pwd; echo $B; echo $HOME; exit 4"], "cwd": "/tmp", "env": ["PATH=/bin", "B=2"], "user": {"uid": 33, "gid": 34}});
    let process = ExecProgram::Process(Box::new(serde_json::from_value(process).expect("process")));
    let outcome = exec(&created, process).expect("exec");
    assert_eq!((outcome.out.as_str(), outcome.code), ("33\n/tmp\n2\n/home/www\n", 4));
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn failures_name_path_and_errno() {
    let b = Bundle::new("exec sleep 30");
    super::failures::programs(&b.rootfs());
    let (created, _reader) = b.launch().expect("launch");
    for (path, errno) in super::failures::CASES {
        let error = exec(&created, argv(&[path])).expect_err(path).to_string();
        assert!(error.contains(path) && error.contains(errno), "{error}");
    }
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
    let error = exec(&created, argv(&["true"])).expect_err("ended").to_string();
    assert!(error.contains("ESRCH") || error.contains("cgroup") || error.contains("ENO"), "{error}");
}

fn in_a_user_namespace() {
    let mut b = Bundle::new("exec sleep 30");
    let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
    b.spec["linux"]["namespaces"].as_array_mut().expect("list").push(json!({"type": "user"}));
    b.spec["linux"]["uidMappings"] = map.clone();
    b.spec["linux"]["gidMappings"] = map;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&b.dir, open).expect("chmod");
    let (created, _reader) = b.launch().expect("launch");
    let outcome =
        exec(&created, argv(&["sh", "-c", "id -u; cat /proc/self/uid_map | wc -l; kill -0 1 && echo same"]))
            .expect("exec");
    assert_eq!(outcome.out, "0\n1\nsame\n");
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

/// How many hold the session keyring of that name.
fn keyring_users(id: &str) -> u32 {
    let table = std::fs::read_to_string("/proc/keys").expect("keys");
    let line =
        table.lines().find(|line| line.contains(&format!("_ses.{id}:"))).expect("a keyring of its own");
    line.split_whitespace().nth(2).and_then(|n| n.parse().ok()).expect("number")
}

fn has_the_containers_keyring() {
    let b = Bundle::new("exec sleep 30");
    let (created, _reader) = b.launch().expect("launch");
    let before = keyring_users(&b.id);
    let (_, stdio) = super::bundle::pipes();
    let run = super::bundle::start_exec(&created, argv(&["sleep", "30"]), stdio).expect("exec");
    assert!(keyring_users(&b.id) > before);
    berth_runtime::kill(&run.pidfd, 9).expect("kill");
    berth_sys::pidfd::wait(&run.pidfd).expect("wait");
    berth_runtime::kill(&created.pidfd, 9).expect("kill");
    finish(&created);
}

fn kill_all_leaves_a_paused_one_paused() {
    let b = Bundle::new("trap 'echo term; exit 4' TERM; while true; do sleep 0.05; done");
    let (created, _reader) = b.launch().expect("launch");
    std::thread::sleep(std::time::Duration::from_millis(100));
    created.cgroup.freeze().expect("freeze");
    berth_runtime::kill_all(&created.cgroup, 15).expect("kill");
    assert_eq!(created.cgroup.is_frozen(), Some(true));
    created.cgroup.thaw().expect("thaw");
    assert_eq!(finish(&created), 4);
}

fn the_seccomp_agent_is_told_the_right_process() {
    let mut b = Bundle::new("exec sleep 30");
    let agent = std::os::unix::net::UnixListener::bind(b.dir.join("agent")).expect("bind");
    // With a pid namespace that is joined, the process is forked on its way.
    let first = Bundle::new("exec sleep 30");
    let (other, _other_reader) = first.launch().expect("first");
    b.spec["linux"]["namespaces"][0] = json!({"type": "pid", "path": format!("/proc/{}/ns/pid", other.pid)});
    b.spec["linux"]["seccomp"] = json!({
        "defaultAction": "SCMP_ACT_ALLOW", "listenerPath": b.dir.join("agent"), "listenerMetadata": "m",
        "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]
    });
    let told = |agent: &std::os::unix::net::UnixListener| {
        let (mut stream, _) = agent.accept().expect("accept");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).expect("read");
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        assert_eq!(value["metadata"], "m");
        value["pid"].as_i64().expect("pid")
    };
    let (created, _reader) = b.launch().expect("launch");
    assert_eq!(told(&agent), i64::from(created.pid));
    let (_, stdio) = super::bundle::pipes();
    let run = super::bundle::start_exec(&created, argv(&["sleep", "0.1"]), stdio).expect("exec");
    assert_eq!(told(&agent), i64::from(run.pid));
    berth_sys::pidfd::wait(&run.pidfd).expect("wait");
    for one in [&created, &other] {
        berth_runtime::kill(&one.pidfd, 9).expect("kill");
        finish(one);
    }
    b.spec["linux"]["seccomp"].as_object_mut().expect("object").remove("listenerPath");
    let error = b.try_run().expect_err("nobody to notify").to_string();
    assert!(error.contains("linux.seccomp.listenerPath"), "{error}");
}

fn after_everything_was_killed() {
    // Some kernels give stillborn children in a group that was ever killed.
    let b = Bundle::new("sleep 300 & exec sleep 300");
    let (created, _reader) = b.launch().expect("launch");
    let created = Arc::new(created);
    berth_runtime::kill_all(&created.cgroup, 9).expect("kill all");
    assert_eq!(finish(&created), 137);
    let again = b.run_again();
    assert_eq!(again, 0);
}

impl Bundle {
    fn run_again(&self) -> i32 {
        let mut other = Self::new("true");
        other.spec["linux"]["cgroupsPath"] = self.spec["linux"]["cgroupsPath"].clone();
        other.run().code
    }
}
