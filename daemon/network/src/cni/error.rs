//! What can go wrong with plugins and their configuration.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use berth_core::{Classified, ErrorClass};

/// A plugin or a configuration failed.
#[derive(Debug, thiserror::Error)]
pub enum CniError {
    /// There is no usable configuration.
    #[error("no usable CNI configuration in {}: {why}", dir.display())]
    NoConfig {
        /// The directory.
        dir: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// An armed fault point.
    #[error(transparent)]
    Fault(#[from] berth_core::fault::Injected),
    /// A saved configuration cannot be read any more.
    #[error("CNI configuration {file}: {why}")]
    Config {
        /// The file it came from.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// The pod's names cannot be told to plugins.
    #[error("pod {what} {value:?} cannot be told to CNI plugins")]
    Argument {
        /// Which name.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// A plugin is not on this node.
    #[error("CNI plugin {plugin:?} of network {network} is in none of {dirs}; install it there")]
    PluginMissing {
        /// Its `type`.
        plugin: String,
        /// The network.
        network: String,
        /// Where it was looked for.
        dirs: String,
    },
    /// A plugin could not be run.
    #[error("cannot run CNI plugin {plugin}: {source}")]
    Run {
        /// Its `type`.
        plugin: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A plugin did not end in time; its process group was killed.
    #[error(
        "CNI plugin {plugin} ({verb}, network {network}) did not end within {limit:?} and was killed{stderr}"
    )]
    Deadline {
        /// Its `type`.
        plugin: String,
        /// The verb.
        verb: &'static str,
        /// The network.
        network: String,
        /// How long it had.
        limit: Duration,
        /// What it wrote meanwhile, ready to be appended.
        stderr: String,
    },
    /// A plugin said that it failed.
    #[error("CNI plugin {plugin} ({verb}, network {network}) failed: {message}{stderr}")]
    Plugin {
        /// Its `type`.
        plugin: String,
        /// The verb.
        verb: &'static str,
        /// The network.
        network: String,
        /// The code of its error, or 0.
        code: u64,
        /// Its message with its details, or how it ended.
        message: String,
        /// What it wrote, ready to be appended.
        stderr: String,
    },
    /// A plugin succeeded and printed something else than a result.
    #[error("CNI plugin {plugin} (network {network}) gave no valid result: {why}")]
    Result {
        /// Its `type`.
        plugin: String,
        /// The network.
        network: String,
        /// What is wrong.
        why: String,
    },
    /// ADD succeeded and gave the pod no address.
    #[error("CNI network {network} gave the pod no address; check its ipam section")]
    NoAddress {
        /// The network.
        network: String,
    },
}

impl Classified for CniError {
    fn class(&self) -> ErrorClass {
        match self {
            CniError::NoConfig { .. } | CniError::Plugin { .. } => ErrorClass::Unavailable,
            CniError::Deadline { .. } => ErrorClass::DeadlineExceeded,
            CniError::Argument { .. } => ErrorClass::InvalidArgument,
            CniError::PluginMissing { .. } | CniError::Config { .. } => ErrorClass::FailedPrecondition,
            CniError::Fault(_)
            | CniError::Run { .. }
            | CniError::Result { .. }
            | CniError::NoAddress { .. } => ErrorClass::Internal,
        }
    }
}
