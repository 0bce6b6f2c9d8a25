//! What every bundle begins with: a busybox rootfs and a configuration that both runtimes take.

use crate::paths;
use anyhow::Context;
use berth_core::profile::{DEFAULT_CAPABILITIES, MASKED_PATHS, READONLY_PATHS};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Applets of busybox, each a symbolic link.
const APPLETS: &str = "sh awk cat chmod chown cmp cp cut date dd df domainname du echo env expr false find free grep head \
    hostname id ifconfig ionice ip kill ln ls mkdir mkfifo mknod mount mv nice nproc nsenter od ping printf ps pwd readlink \
    renice rm rmdir route sed seq sh sleep sort stat stty sync sysctl tail taskset tee test touch tr true tty umount uname \
    unshare usleep wc which yes";

/// Lays a rootfs.
pub(super) fn lay(rootfs: &Path) -> anyhow::Result<()> {
    for dir in ["bin", "proc", "dev", "sys", "tmp", "etc", "root", "run", "var", "mnt"] {
        fs::create_dir_all(rootfs.join(dir))?;
    }
    fs::set_permissions(rootfs.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    let busybox = paths::package_file("busybox-static", "bin/busybox")?;
    // Never a link: a container may well write to its program.
    fs::copy(&busybox, rootfs.join("bin/busybox")).context("copying busybox")?;
    for applet in APPLETS.split_whitespace() {
        let _ = symlink("busybox", rootfs.join("bin").join(applet));
    }
    fs::write(rootfs.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var:/bin/sh\n")?;
    fs::write(rootfs.join("etc/group"), "root:x:0:\nwww-data:x:33:\nstaff:x:50:www-data\n")?;
    Ok(())
}

/// The configuration, with its cgroup named as the container.
pub(super) fn config(id: &str) -> Value {
    let caps = json!(DEFAULT_CAPABILITIES);
    json!({
        "ociVersion": "1.2.0",
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "args": ["true"],
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "capabilities": {"bounding": caps, "effective": caps, "permitted": caps},
            "noNewPrivileges": true
        },
        "root": {"path": "rootfs", "readonly": false},
        "hostname": "bundle",
        "mounts": mounts(),
        "linux": {
            "cgroupsPath": format!("/{id}"),
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
            "namespaces": [
                {"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "cgroup"}
            ],
            "maskedPaths": MASKED_PATHS,
            "readonlyPaths": READONLY_PATHS
        }
    })
}

fn mounts() -> Value {
    let quiet = ["nosuid", "noexec", "nodev"];
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
        mount("/dev/mqueue", "mqueue", "mqueue", &quiet),
        mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount("/sys/fs/cgroup", "cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
    ])
}

/// An entry of `mounts`.
pub fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({"destination": destination, "type": kind, "source": source, "options": options})
}

/// Adds to a list of a configuration, which is made if it is missing.
pub fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}
