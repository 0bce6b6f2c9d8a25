//! The table again in a mount and a cgroup namespace of its own where only the unified hierarchy is visible: what runs
//! the rows is this same program, executed anew inside.

use super::judge;
use anyhow::{Context as _, Result, bail};
use berth_e2e::harness::Context;
use std::process::Stdio;
use tokio::process::Command;

const INSIDE: &str = "BERTH_E2E_INSIDE";

const PRELUDE: &str = "set -eu
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec \"$@\"
";

/// Runs every other test of the table inside. On a machine that is so anyway they have been run.
pub(super) async fn unified(context: &Context) -> Result<()> {
    if std::env::var_os(INSIDE).is_some() || judge::only_unified() {
        return Err(context.skip("only the unified hierarchy is there already"));
    }
    if std::env::var_os("BERTH_E2E_GUEST").is_some() {
        return Err(context
            .skip("the table runs in a machine that has nothing but the unified hierarchy, see vm::suites"));
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--cgroup", "--propagation", "private", "sh", "-c", PRELUDE, "sh"]);
    command.arg(std::env::current_exe()?).args(["--jobs", "2", "matrix::"]);
    command.env(INSIDE, "1").env_remove("BERTH_E2E_SHARD").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.context("unshare")?;
    if !output.status.success() {
        let (said, words) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("where only the unified hierarchy is visible:\n{said}{words}");
    }
    Ok(())
}
