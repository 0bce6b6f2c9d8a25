//! The daemon's configuration: one struct per subject, every key with a default, unknown keys refused.
//!
//! Order of strength: defaults, the file, flags. [`load`] gives a checked [`Config`]; [`template::text`] prints the
//! commented file from the same types, so that it cannot lag behind them.

pub mod load;
mod nearest;
pub mod section;
pub mod template;
pub mod validate;

pub use load::{LoadError, Overrides, load};
pub use section::{
    BuiltinNetwork, Cgroup, CgroupDriver, CniNetwork, Config, Grpc, Image, Log, LogFormat, LogLevel, Network,
    NetworkMode, Runtime, Spool,
};
pub use validate::ValidateError;

/// Where the file is looked for when no flag names one. It need not exist.
pub const DEFAULT_FILE: &str = "/etc/berth/config.toml";
