//! Whole suites that also run on the developer's machine, in the guest: the table of bundles beside runc, and the
//! daemon's tests.

use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::vm::{self, BIN, Guest, Mode, TOOLS};
use berth_e2e::{check, tests};

tests![; long [bundles, daemon, service, bundles_hybrid, service_hybrid]];

/// What the daemon's tests are that meet control groups, an old kernel and a real process 1.
const DAEMON: &str = "slice::first limits:: container:: restart::addresses_survive";

async fn bundles(_context: Context) -> Result<()> {
    table(Mode::Unified, 0).await
}

async fn bundles_hybrid(_context: Context) -> Result<()> {
    table(Mode::Hybrid, 2).await
}

/// The guest's processors are emulated, twenty times as slow as this machine's: every fifth row of each subject, others in
/// each mode, some 115 of them.
async fn table(mode: Mode, from: usize) -> Result<()> {
    suite(
        &mut vm::guest(mode).await?,
        "oci",
        "matrix::",
        12,
        &format!("BERTH_E2E_EVERY=5 BERTH_E2E_FROM={from}"),
    )
    .await
}

async fn daemon(_context: Context) -> Result<()> {
    suite(&mut vm::guest(Mode::Unified).await?, "e2e", DAEMON, 10, "").await
}

async fn service(_context: Context) -> Result<()> {
    suite(&mut vm::guest(Mode::Unified).await?, "oci", "vm::inside::", 4, "").await
}

async fn service_hybrid(_context: Context) -> Result<()> {
    suite(&mut vm::guest(Mode::Hybrid).await?, "oci", "vm::inside::", 4, "").await
}

/// Runs tests of a program in the guest: none fails, and as many as promised ran.
async fn suite(guest: &mut Guest, program: &str, filters: &str, least: usize, settings: &str) -> Result<()> {
    let script = format!(
        "export BERTH_E2E_BIN={BIN} BERTH_E2E_TOOLS={TOOLS} BERTH_E2E_GUEST=1 BERTH_E2E_SLOW=5 HOME=/root NO_COLOR=1 {settings}\n\
         cd /root; {BIN}/{program} --jobs 2 {filters} 2>&1"
    );
    // No limit of its own: the machine may be busy with other things.
    let output = guest.run(&script, 3000).await?;
    let passed = output.out.lines().rev().find_map(|line| line.split_once(" passed, ")?.0.parse().ok());
    let enough = passed.is_some_and(|passed: usize| passed >= least);
    check!(
        output.code == 0 && enough,
        "{program} {filters} in the guest ended with {}:\n{}",
        output.code,
        output.out
    );
    output
        .out
        .lines()
        .filter(|line| line.starts_with("skipped"))
        .for_each(|line| println!("        in the guest: {line}"));
    Ok(())
}
