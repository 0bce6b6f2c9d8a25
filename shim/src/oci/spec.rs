//! `spec`: a configuration to begin with.

use std::ffi::OsString;
use std::path::Path;

use berth_core::profile::{MASKED_PATHS, READONLY_PATHS};
use serde_json::{Value, json};

use super::flags::Flag;
use super::{About, OciError, flags};

const FLAGS: &[Flag] = &[Flag::value("bundle", "b")];

pub(crate) fn main(args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    flags.at_most(0)?;
    let path = Path::new(flags.value("bundle").unwrap_or(".")).join("config.json");
    let text = serde_json::to_vec_pretty(&example())
        .map_err(|error| OciError::Json { path: path.display().to_string(), error })?;
    let file = std::fs::File::options().write(true).create_new(true).open(&path).about("write", &path)?;
    std::io::Write::write_all(&mut { file }, &text).about("write", &path)
}

fn example() -> Value {
    let caps = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"];
    json!({
        "ociVersion": berth_runtime::hooks::OCI_VERSION,
        "process": {
            "terminal": true,
            "user": {"uid": 0, "gid": 0},
            "args": ["sh"],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"],
            "cwd": "/",
            "capabilities": {"bounding": caps, "effective": caps, "permitted": caps},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
            "noNewPrivileges": true
        },
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "berth",
        "mounts": mounts(),
        "linux": {
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
            "namespaces": [
                {"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
                {"type": "cgroup"}
            ],
            "maskedPaths": MASKED_PATHS,
            "readonlyPaths": READONLY_PATHS
        }
    })
}

fn mounts() -> Value {
    let mount = |destination: &str, kind: &str, source: &str, options: &[&str]| {
        let mut value = json!({"destination": destination, "type": kind, "source": source});
        if !options.is_empty() {
            value["options"] = json!(options);
        }
        value
    };
    json!([
        mount("/proc", "proc", "proc", &[]),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
        ),
        mount("/dev/shm", "tmpfs", "shm", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        mount("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount("/sys/fs/cgroup", "cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
    ])
}
