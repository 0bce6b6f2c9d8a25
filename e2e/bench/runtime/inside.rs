//! The same program again in a mount and a cgroup namespace where only the unified hierarchy is visible.

use anyhow::{Context, bail};
use berth_e2e::world;
use std::process::Stdio;

/// What it prints inside: the tables.
pub(super) fn run(size: &super::Size) -> anyhow::Result<String> {
    let mut command = world::inside(world::UNIFIED)?;
    command.args(["runtime", "--rounds", &size.rounds.to_string()]);
    for name in &size.without {
        command.args(["--without", name]);
    }
    command.env_remove("BERTH_E2E_REPORT").stderr(Stdio::inherit());
    let output = command.output().context("unshare")?;
    if !output.status.success() {
        bail!("where only the unified hierarchy is visible: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim_start().to_owned())
}
