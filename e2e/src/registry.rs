//! A registry on loopback, in this process: real HTTP, so that a pull is a pull, and faults on demand.

mod auth;
mod content;
mod fault;
mod serve;

pub use auth::Auth;
pub use fault::{Act, Fault};
pub use serve::{Registry, Seen};
