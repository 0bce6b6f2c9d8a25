//! Side by side with runc: a table of bundles, one row per case, each run by both in the same run. The same must be
//! seen, or the row says what each shows and why ours differs on purpose.

mod bad;
mod cli;
mod damaged;
mod exec;
mod hooks;
mod host;
mod identity;
mod inside;
pub(crate) mod judge;
pub(crate) mod lifecycle;
mod limits;
pub(crate) mod mounts;
mod namespaces;
mod netdevices;
pub(crate) mod paths;
mod privileges;
mod process;
pub(crate) mod row;
mod users;

use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::tests;
use row::Row;

tests![; minutes 60 [
    command_lines, a_fifo_is_no_configuration, a_lost_record_is_no_lost_container, nothing_joins_without_the_filter, a_killed_maker_leaves_nothing_for_ever, help_is_given, nobody_holds_up_a_start, of_two_at_once_one_is_refused, state_is_private, the_next_of_a_name_is_left_alone, bad, exec, hooks, identity, lifecycle, limits, mounts, namespaces, netdevices, paths, privileges, process, users, as_systemd_mounts, unified]];

/// The rows of every subject.
pub(crate) fn rows() -> Vec<Row> {
    let subjects = [
        bad::rows,
        cli::rows,
        exec::rows,
        hooks::rows,
        identity::rows,
        lifecycle::rows,
        limits::rows,
        mounts::rows,
        namespaces::rows,
        netdevices::rows,
        paths::rows,
        privileges::rows,
        process::rows,
        users::rows,
    ];
    subjects.into_iter().flat_map(|rows| rows()).collect()
}

/// Runs the rows of one subject.
async fn subject(context: Context, rows: fn() -> Vec<Row>) -> Result<()> {
    judge::all(&context, rows()).await
}

async fn a_killed_maker_leaves_nothing_for_ever(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(cli::a_killed_maker_leaves_nothing_for_ever).await?
}

async fn a_fifo_is_no_configuration(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(damaged::a_fifo_is_no_configuration).await?
}

async fn a_lost_record_is_no_lost_container(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(damaged::a_lost_record_is_no_lost_container).await?
}

async fn nothing_joins_without_the_filter(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(damaged::nothing_joins_without_the_filter).await?
}

async fn help_is_given(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(cli::help_is_given).await?
}

async fn nobody_holds_up_a_start(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(cli::nobody_holds_up_a_start).await?
}

async fn of_two_at_once_one_is_refused(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(cli::of_two_at_once_one_is_refused).await?
}

async fn state_is_private(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(cli::state_is_private).await?
}

async fn the_next_of_a_name_is_left_alone(_context: Context) -> Result<()> {
    tokio::task::spawn_blocking(cli::the_next_of_a_name_is_left_alone).await?
}

async fn bad(context: Context) -> Result<()> {
    subject(context, bad::rows).await
}

async fn command_lines(context: Context) -> Result<()> {
    subject(context, cli::rows).await
}

async fn exec(context: Context) -> Result<()> {
    subject(context, exec::rows).await
}

async fn lifecycle(context: Context) -> Result<()> {
    subject(context, lifecycle::rows).await
}

async fn hooks(context: Context) -> Result<()> {
    subject(context, hooks::rows).await
}

async fn limits(context: Context) -> Result<()> {
    subject(context, limits::rows).await
}

async fn identity(context: Context) -> Result<()> {
    subject(context, identity::rows).await
}

async fn namespaces(context: Context) -> Result<()> {
    subject(context, namespaces::rows).await
}

async fn netdevices(context: Context) -> Result<()> {
    subject(context, netdevices::rows).await
}

async fn mounts(context: Context) -> Result<()> {
    subject(context, mounts::rows).await
}

async fn paths(context: Context) -> Result<()> {
    subject(context, paths::rows).await
}

async fn privileges(context: Context) -> Result<()> {
    subject(context, privileges::rows).await
}

async fn process(context: Context) -> Result<()> {
    subject(context, process::rows).await
}

async fn users(context: Context) -> Result<()> {
    subject(context, users::rows).await
}

/// The rows on mounts again where the host's are as systemd makes them.
async fn as_systemd_mounts(context: Context) -> Result<()> {
    inside::systemd(&context).await
}

/// Every row again where there is no cgroup hierarchy but the unified one.
async fn unified(context: Context) -> Result<()> {
    inside::unified(&context).await
}
