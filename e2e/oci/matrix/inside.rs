//! Rows of the table again in a mount namespace of their own that shows another machine: what runs them is this same
//! program, executed anew inside.

use super::judge;
use anyhow::{Context as _, Result, bail};
use berth_e2e::harness::Context;
use berth_e2e::world;
use tokio::process::Command;

/// A world as systemd makes it: the root is shared, /dev and what is below it have more flags.
const SYSTEMD: &str = "set -eu
mount --make-rshared /
mount -o remount,bind,nosuid,noexec /dev/pts
if mountpoint -q /dev; then mount -o remount,bind,nosuid /dev; fi
exec \"$@\"
";

/// Runs every other test of the table where there is no hierarchy but the unified one. On a machine that is so anyway they
/// have been run.
pub(super) async fn unified(context: &Context) -> Result<()> {
    if std::env::var_os("BERTH_E2E_GUEST").is_some() {
        return Err(context
            .skip("the table runs in a machine that has nothing but the unified hierarchy, see vm::suites"));
    }
    if judge::only_unified() {
        return Err(context.skip("only the unified hierarchy is there already"));
    }
    again(context, world::UNIFIED, "matrix::").await
}

/// Runs the rows on mounts where they are as systemd makes them. On a machine that is so anyway they have been run.
pub(super) async fn systemd(context: &Context) -> Result<()> {
    if judge::root_is_shared() {
        return Err(context.skip("the root is shared already"));
    }
    again(context, SYSTEMD, "matrix::mounts").await
}

async fn again(context: &Context, shown: &str, tests: &str) -> Result<()> {
    if world::is_inside() {
        return Err(context.skip("this is another world already"));
    }
    let mut command = Command::from(world::inside(shown)?);
    command.args(["--jobs", "2", tests]).env_remove("BERTH_E2E_SHARD").kill_on_drop(true);
    let output = command.output().await.context("unshare")?;
    if !output.status.success() {
        let (said, words) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("inside another world:\n{said}{words}");
    }
    Ok(())
}
