//! The attacks on paths and mounts again, all of them behind the filter: what runs them is this same program, executed anew.

use anyhow::{Context as _, Result, bail};
use berth_e2e::check;
use berth_e2e::filter::Filter;
use std::process::{Command, Stdio};

/// Those that the calls have to do with.
const ATTACKS: [&str; 8] = [
    "cve::binary::",
    "cve::cgroups::",
    "cve::console::",
    "cve::descriptors::",
    "cve::masks::",
    "cve::mounts::",
    "cve::procfs::",
    "cve::identity::files_without_end",
];

/// Runs them behind the filter.
pub(super) async fn again(filter: &Filter) -> Result<()> {
    super::rows::is_felt(filter)?;
    let mut plain = Command::new(std::env::current_exe()?);
    plain.args(["--jobs", "2"]).args(ATTACKS).env_remove("BERTH_E2E_SHARD");
    let mut command = tokio::process::Command::from(filter.around(&plain)?);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("the launcher")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{filter}:\n{said}{words}");
    }
    for family in ATTACKS {
        check!(said.contains(family), "{family} was not run: {said}");
    }
    Ok(())
}
