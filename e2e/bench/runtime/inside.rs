//! The same program again in a mount and a cgroup namespace where only the unified hierarchy is visible.

use anyhow::{Context, bail};
use std::process::{Command, Stdio};

const INSIDE: &str = "BERTH_E2E_INSIDE";

const PRELUDE: &str = "set -eu
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec \"$@\"
";

/// Whether this is the program inside.
pub(super) fn is() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// What it prints inside: the tables.
pub(super) fn run(size: &super::Size) -> anyhow::Result<String> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--cgroup", "--propagation", "private", "sh", "-c", PRELUDE, "sh"]);
    command.arg(std::env::current_exe()?).args(["runtime", "--rounds", &size.rounds.to_string()]);
    for name in &size.without {
        command.args(["--without", name]);
    }
    command.env(INSIDE, "1").env_remove("BERTH_E2E_REPORT").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("unshare")?;
    if !output.status.success() {
        bail!("where only the unified hierarchy is visible: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim_start().to_owned())
}
