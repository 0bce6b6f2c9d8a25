//! Shims as the daemon sees them: launched, connected to, asked with deadlines, watched until they end.

mod connect;
mod find;
mod handle;
mod launch;
mod process;
mod reconnect;

pub(crate) use connect::{end, end_at};
pub(crate) use find::{Found, find};
pub use handle::Shim;
pub(crate) use launch::launch;
pub(crate) use process::Process;
pub(crate) use reconnect::reconnect;
