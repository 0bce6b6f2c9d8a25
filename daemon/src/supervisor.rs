//! Shims as the daemon sees them: launched, connected to, asked with deadlines, watched until they end.

mod connect;
mod handle;
mod launch;
mod watch;

pub(crate) use connect::{connect, end, end_at};
pub use handle::Shim;
pub(crate) use launch::launch;
pub(crate) use watch::watch;
