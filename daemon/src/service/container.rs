//! Verbs on containers.

mod create;
mod exec_sync;
mod list;
mod remove;
mod reopen_log;
mod start;
mod stats;
mod status;
mod stop;
mod update;

pub use create::create;
pub use exec_sync::{ExecOutput, exec_sync};
pub use list::{Filter, State, list};
pub use remove::remove;
pub use reopen_log::reopen_log;
pub use start::start;
pub use stats::{list_stats, stats};
pub use status::status;
pub use stop::stop;
pub use update::update;
