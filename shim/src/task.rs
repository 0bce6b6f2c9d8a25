//! The calls about containers, one file each.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod exec_sync;
pub(crate) mod kill;
pub(crate) mod kill_group;
pub(crate) mod list;
pub(crate) mod reopen_log;
pub(crate) mod start;
pub(crate) mod update;
