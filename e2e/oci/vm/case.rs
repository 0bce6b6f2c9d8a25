//! Containers in the guest: made from a specification, looked at through the host's cgroup files and systemd's words.

use anyhow::Result;
use berth_e2e::check;
use berth_e2e::vm::{self, BIN, Guest, Mode, Output, TOOLS};
use serde_json::{Value, json};

/// The time of one usual step, seconds. The guest is emulated, and its machine is shared.
const STEP: u64 = 120;

/// The guest with a root file system for containers, and one cgroup driver.
pub(super) struct Case {
    guest: Guest,
    driver: &'static str,
}

/// What every script may use.
const WORDS: &str = r#"
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
# The directories of a container's init in the unified tree, or below a named mount.
unified() { sed -n 's/^0:://p' /proc/$(cat /root/$1.pid)/cgroup; }
# Waits for a condition; true is not said before it holds.
until_true() { for _ in $(seq 150); do if eval "$1"; then return 0; fi; sleep 0.2; done; fail "never: $1"; }
"#;

/// A root file system of busybox alone.
const ROOT: &str = "mkdir -p /root/rootfs/bin /root/rootfs/proc /root/rootfs/dev /root/rootfs/sys/fs/cgroup /root/rootfs/tmp\n";

impl Case {
    /// With plain directories.
    pub(super) async fn cgroupfs(mode: Mode) -> Result<Self> {
        Self::new(mode, "").await
    }

    /// With scopes of systemd.
    pub(super) async fn systemd(mode: Mode) -> Result<Self> {
        Self::new(mode, "--systemd-cgroup").await
    }

    async fn new(mode: Mode, driver: &'static str) -> Result<Self> {
        let mut case = Self { guest: vm::guest(mode).await?, driver };
        case.ok(&format!(
            "{ROOT}cp {TOOLS}/deb/busybox-static/bin/busybox /root/rootfs/bin/\n\
             for applet in sh sleep cat echo mkdir true kill mknod dd tail head usleep rmdir ls rm mv; do\n\
             ln -s busybox /root/rootfs/bin/$applet\ndone"
        ))
        .await?;
        Ok(case)
    }

    /// What a script prints that must end well.
    pub(super) async fn ok(&mut self, script: &str) -> Result<String> {
        let text = format!("{WORDS}{}{script}", self.alias());
        Ok(self.guest.ok(&text, STEP).await?.trim_end().to_owned())
    }

    /// How a script ended.
    pub(super) async fn run(&mut self, script: &str) -> Result<Output> {
        let text = format!("{WORDS}{}{script}", self.alias());
        self.guest.run(&text, STEP).await
    }

    /// The runtime with the case's driver is `oci` in scripts.
    fn alias(&self) -> String {
        format!("oci() {{ {BIN}/berth-oci --root /run/berth-case {} \"$@\"; }}\n", self.driver)
    }

    /// Runs a container detached; its pid is in `/root/<name>.pid`.
    pub(super) async fn start(&mut self, name: &str, spec: &Value) -> Result<()> {
        let script = format!(
            "{}\noci run --detach --bundle /root/{name} --pid-file /root/{name}.pid {name}",
            bundle(name, spec)
        );
        self.ok(&script).await.map(drop)
    }

    /// The error of a container that must not come to be.
    pub(super) async fn refused(&mut self, name: &str, spec: &Value) -> Result<String> {
        let script = format!("{}\noci run --detach --bundle /root/{name} {name}", bundle(name, spec));
        let output = self.run(&script).await?;
        check!(output.code != 0, "{name} was not refused: {spec}");
        let left = self.ok("oci list --quiet").await?;
        check!(!left.contains(name), "the refused {name} is listed: {left}");
        Ok(format!("{}{}", output.out, output.err))
    }

    /// Kills and deletes a container, and checks that its directories are gone.
    pub(super) async fn delete(&mut self, name: &str) -> Result<()> {
        let script = format!("oci delete --force {name}\nfind /sys/fs/cgroup -type d -name '*{name}*'");
        let left = self.ok(&script).await?;
        check!(left.is_empty(), "cgroups of {name} are left: {left}");
        Ok(())
    }

    /// Checks files of a container's group in the unified tree.
    pub(super) async fn files(&mut self, name: &str, wanted: &[(&str, &str)]) -> Result<()> {
        let list: Vec<&str> = wanted.iter().map(|(file, _)| *file).collect();
        let script = format!(
            "cd /sys/fs/cgroup$(unified {name})\nfor file in {}; do echo \"$file=$(tr '\\n' ';' <$file)\"; done",
            list.join(" ")
        );
        let told = self.ok(&script).await?;
        let missing: Vec<_> = wanted
            .iter()
            .map(|(file, value)| format!("{file}={value};"))
            .filter(|line| !told.lines().any(|have| have == line))
            .collect();
        check!(missing.is_empty(), "wanted {missing:?}, there is\n{told}");
        Ok(())
    }

    /// Checks properties of a unit.
    pub(super) async fn properties(&mut self, unit: &str, wanted: &[(&str, &str)]) -> Result<()> {
        let list: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
        let told = self.ok(&format!("systemctl show -p {} {unit}", list.join(","))).await?;
        let missing: Vec<_> = wanted
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .filter(|line| !told.lines().any(|have| have == line))
            .collect();
        check!(missing.is_empty(), "wanted {missing:?}, systemd says\n{told}");
        Ok(())
    }
}

/// A script that lays a bundle down.
fn bundle(name: &str, spec: &Value) -> String {
    format!("mkdir -p /root/{name}\ncat >/root/{name}/config.json <<'JSON'\n{spec}\nJSON")
}

/// A container with its own namespaces in a cgroup, running a shell script.
pub(super) fn spec(cgroup: &str, resources: &Value, script: &str) -> Value {
    let caps = ["CAP_MKNOD", "CAP_KILL", "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"];
    json!({
        "ociVersion": "1.2.0",
        "process": {
            "user": {"uid": 0, "gid": 0}, "args": ["/bin/sh", "-c", script], "cwd": "/",
            "env": ["PATH=/bin"],
            "capabilities": {"bounding": caps, "effective": caps, "permitted": caps},
        },
        "root": {"path": "/root/rootfs", "readonly": false},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["rw"]},
        ],
        "linux": {
            "cgroupsPath": cgroup, "resources": resources,
            "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "mount"}, {"type": "network"}, {"type": "cgroup"}],
        },
    })
}
