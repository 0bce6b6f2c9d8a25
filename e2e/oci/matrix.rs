//! Side by side with runc: a table of bundles, one row per case, each run by both in the same run. The same must be
//! seen, or the row says what each shows and why ours differs on purpose.

mod identity;
mod inside;
mod judge;
mod row;

use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::tests;
use row::Row;

tests![; minutes 60 [identity, unified]];

/// Runs the rows of one subject.
async fn subject(context: Context, rows: fn() -> Vec<Row>) -> Result<()> {
    judge::all(&context, rows()).await
}

async fn identity(context: Context) -> Result<()> {
    subject(context, identity::rows).await
}

/// Every row again where there is no cgroup hierarchy but the unified one.
async fn unified(context: Context) -> Result<()> {
    inside::unified(&context).await
}
