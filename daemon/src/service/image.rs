//! Verbs on images.

mod find;
pub mod fs_info;
mod list;
mod pull;
mod remove;
pub mod resolve;
mod status;

pub use fs_info::fs_info;
pub use list::list;
pub use pull::{FAULTS, pull};
pub use remove::remove;
pub use status::status;
