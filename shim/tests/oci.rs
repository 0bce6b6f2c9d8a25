//! The OCI command line, driven as a caller of runc drives it. Needs root and a static busybox; passes without them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const BUSYBOX: &str = "/bin/busybox";

/// A bundle, a state directory of its own and the command.
struct Oci {
    dir: PathBuf,
    id: String,
}

impl Oci {
    fn new(name: &str, script: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !std::path::Path::new(BUSYBOX).exists() {
            eprintln!("skipped: needs root and {BUSYBOX}");
            return None;
        }
        let id = format!("berth-oci-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(&id);
        for name in ["bin", "proc", "dev", "sys", "tmp"] {
            std::fs::create_dir_all(dir.join("rootfs").join(name)).expect("mkdir");
        }
        std::fs::copy(BUSYBOX, dir.join("rootfs/bin/busybox")).expect("busybox");
        for applet in ["sh", "sleep", "id", "echo", "true", "ls"] {
            symlink("busybox", dir.join("rootfs/bin").join(applet)).expect("link");
        }
        let oci = Self { dir, id };
        assert!(oci.run(&["spec", "--bundle", oci.bundle()]).status.success());
        oci.change(|spec| {
            spec["process"]["terminal"] = json!(false);
            spec["process"]["args"] = json!(["sh", "-c", script]);
            spec["linux"]["cgroupsPath"] = json!(format!("/{}", oci.id));
        });
        Some(oci)
    }

    fn bundle(&self) -> &str {
        self.dir.to_str().expect("text")
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let path = self.dir.join("config.json");
        let mut spec = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("json");
        change(&mut spec);
        std::fs::write(&path, serde_json::to_vec(&spec).expect("json")).expect("write");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth-shim"));
        command.arg("oci").arg("--root").arg(self.dir.join("state")).args(args).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("run")
    }

    /// Runs a command whose descendants keep its streams.
    fn quietly(&self, args: &[&str]) -> bool {
        let status = self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("run").success()
    }

    fn status(&self) -> String {
        let output = self.run(&["state", &self.id]);
        let state: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        state["status"].as_str().unwrap_or("gone").to_owned()
    }

    fn end(&self) {
        let output = self.run(&["delete", "--force", &self.id]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(self.status(), "gone");
    }
}

impl Drop for Oci {
    fn drop(&mut self) {
        let _ = self.quietly(&["delete", "--force", &self.id]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_life_in_single_steps() {
    let Some(oci) = Oci::new("life", "sleep 60") else { return };
    let id = oci.id.as_str();
    let pid_file = oci.dir.join("pid");
    let create = ["create", "--bundle", oci.bundle(), "--pid-file", pid_file.to_str().expect("text"), id];
    assert!(oci.quietly(&create));
    assert_eq!(oci.status(), "created");
    assert!(!oci.quietly(&create), "created twice");
    assert!(oci.quietly(&["start", id]));
    assert_eq!(oci.status(), "running");
    assert!(!oci.quietly(&["start", id]), "started twice");
    let exec = oci.run(&[
        "exec",
        "--env",
        "A=5",
        "--cwd",
        "/tmp",
        "--user",
        "7:8",
        id,
        "sh",
        "-c",
        "echo $A; id -u; exit 3",
    ]);
    assert_eq!((exec.status.code(), text(&exec.stdout).as_str()), (Some(3), "5\n7\n"));
    let ps: Vec<i32> =
        serde_json::from_slice(&oci.run(&["ps", "--format", "json", id]).stdout).expect("pids");
    assert_eq!(vec![std::fs::read_to_string(&pid_file).expect("pid").parse::<i32>().expect("number")], ps);
    assert!(oci.quietly(&["pause", id]));
    assert_eq!(oci.status(), "paused");
    assert!(oci.quietly(&["resume", id]));
    assert!(oci.quietly(&["update", "--pids-limit", "50", id]));
    let stats: Value = serde_json::from_slice(&oci.run(&["events", "--stats", id]).stdout).expect("json");
    assert_eq!(stats["data"]["pids"]["limit"], 50);
    assert!(!oci.quietly(&["delete", id]), "deleted while it runs");
    assert!(oci.quietly(&["kill", id, "KILL"]));
    oci.end();
}

#[test]
fn run_gives_the_programs_code_and_output() {
    let Some(oci) = Oci::new("run", "echo hi; exit 5") else { return };
    let output = oci.run(&["run", "--bundle", oci.bundle(), &oci.id]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(5), "hi\n"));
    assert_eq!(oci.status(), "gone");
    oci.change(|spec| spec["process"]["args"] = json!(["/missing"]));
    let log = oci.dir.join("log");
    let args = [
        "--log",
        log.to_str().expect("text"),
        "--log-format",
        "json",
        "run",
        "--bundle",
        oci.bundle(),
        &oci.id,
    ];
    assert_eq!(oci.run(&args).status.code(), Some(1));
    let line: Value = serde_json::from_slice(&std::fs::read(&log).expect("log")).expect("json");
    assert_eq!(line["level"], "error");
    assert!(line["msg"].as_str().expect("text").contains("/missing: ENOENT"));
    assert_eq!(oci.status(), "gone");
}

#[test]
fn only_what_the_caller_left_open_is_preserved() {
    let Some(oci) = Oci::new("fds", "ls /proc/self/fd") else { return };
    // Nobody opened descriptor 3: it must not become one of the runtime's own.
    let output = oci.run(&["run", "--preserve-fds", "1", "--bundle", oci.bundle(), &oci.id]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--preserve-fds"), "{}", text(&output.stderr));
    assert_eq!(
        oci.run(&["run", "--preserve-fds", "2147483647", "--bundle", oci.bundle(), &oci.id]).status.code(),
        Some(1)
    );
    let script = format!(
        "exec 3</dev/null; exec {} oci --root {} run --preserve-fds 1 --bundle {} {}",
        env!("CARGO_BIN_EXE_berth-shim"),
        oci.dir.join("state").display(),
        oci.bundle(),
        oci.id
    );
    let output = Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::null()).output().expect("sh");
    // ls itself holds 4 for the directory.
    assert_eq!(text(&output.stdout), "0\n1\n2\n3\n4\n", "{}", text(&output.stderr));
}

#[test]
fn state_is_private() {
    let Some(oci) = Oci::new("modes", "sleep 60") else { return };
    let script = format!(
        "umask 0; exec {} oci --root {} create --bundle {} {} >/dev/null 2>&1",
        env!("CARGO_BIN_EXE_berth-shim"),
        oci.dir.join("state").display(),
        oci.bundle(),
        oci.id
    );
    assert!(
        Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::null()).status().expect("sh").success()
    );
    let state = oci.dir.join("state");
    let mode = |path: PathBuf| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!([mode(state.clone()), mode(state.join(&oci.id))], [0o700, 0o700]);
    for file in ["state.json", "config.json", "start.sock"] {
        assert_eq!(mode(state.join(&oci.id).join(file)), 0o600, "{file}");
    }
    oci.end();
}

#[test]
fn one_who_connects_and_says_nothing_does_not_hold_up_the_start() {
    let Some(oci) = Oci::new("mute", "sleep 60") else { return };
    assert!(oci.quietly(&["create", "--bundle", oci.bundle(), &oci.id]));
    let mute =
        std::os::unix::net::UnixStream::connect(oci.dir.join("state").join(&oci.id).join("start.sock"));
    assert!(oci.quietly(&["start", &oci.id]));
    assert_eq!(oci.status(), "running");
    drop(mute);
    oci.end();
}

#[test]
fn a_maker_that_is_killed_leaves_nothing_that_delete_cannot_end() {
    let Some(oci) = Oci::new("killed", "sleep 60") else { return };
    for delay in [0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 30, 40] {
        let mut maker = oci.command(&["create", "--bundle", oci.bundle(), &oci.id]);
        let mut child = maker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("create");
        std::thread::sleep(std::time::Duration::from_millis(delay));
        child.kill().expect("kill");
        child.wait().expect("wait");
        oci.end();
        let left: Vec<_> = ["memory", "pids", "unified"]
            .map(|name| PathBuf::from("/sys/fs/cgroup").join(name).join(&oci.id))
            .into_iter()
            .filter(|path| path.exists())
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}
