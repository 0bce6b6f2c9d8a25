//! Verbs on pod sandboxes.

mod list;
mod remove;
mod run;
mod stats;
mod status;
mod stop;
mod update;

pub use list::{Filter, list};
pub use remove::remove;
pub use run::run;
pub use stats::{list_stats, stats};
pub use status::{SandboxStatus, status};
pub use stop::stop;
pub use update::update;
