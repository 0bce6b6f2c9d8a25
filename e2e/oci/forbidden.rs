//! The runtime behind a seccomp filter of somebody else's, who does not know the newer calls: every row of the table shows what it
//! shows without the filter, and no attack finds a way through what is done instead.

mod attack;
mod handles;
mod rows;

use crate::matrix;
use anyhow::Result;
use berth_e2e::filter::{ENOSYS, EPERM, Filter};
use berth_e2e::harness::Context;
use berth_e2e::tests;

/// Without it another command cannot find a container again: see `handles`.
const HANDLES: &str = "pidfd_open";
/// A C library asks for it as well, and only ENOSYS makes it ask for the older one.
const LIBRARY: &str = "clone3";

tests![; minutes 20 [mounts_and_paths, one_by_one, no_handles_of_processes, attacks]; long [every_row]];

/// All together.
fn together() -> [Filter; 2] {
    [Filter::all_but(ENOSYS, &[HANDLES]), Filter::all_but(EPERM, &[HANDLES, LIBRARY])]
}

async fn every_row(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(|| rows::all(&matrix::rows(), &together())).await?
}

/// The rows about what is done otherwise, in every run.
async fn mounts_and_paths(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(|| {
        let mut rows = matrix::mounts::rows();
        rows.extend(matrix::paths::rows());
        rows::all(&rows, &together()[..1])
    })
    .await?
}

async fn one_by_one(_context: Context) -> Result<()> {
    let each = [Filter::each_but(ENOSYS, &[HANDLES]), Filter::each_but(EPERM, &[HANDLES, LIBRARY])];
    tokio::task::spawn_blocking(move || rows::lives(&[each.concat(), together().to_vec()].concat())).await?
}

async fn no_handles_of_processes(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(|| {
        handles::all(&Filter::all_but(ENOSYS, &[]))?;
        handles::all(&Filter::all_but(EPERM, &[LIBRARY]))
    })
    .await?
}

async fn attacks(_context: Context) -> Result<()> {
    attack::again(&Filter::all_but(ENOSYS, &[HANDLES])).await
}
