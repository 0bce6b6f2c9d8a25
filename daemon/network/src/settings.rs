//! What the administrator says about the network; the daemon fills it from its configuration.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::subnet::Subnet;

/// Who attaches pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// CNI when a configuration lies in its directory, usable or not, else the built-in network; decided per pod.
    #[default]
    Auto,
    /// CNI only; the network is not ready without a configuration.
    Cni,
    /// The built-in network only.
    Builtin,
    /// Nobody: pods have their loopback only.
    None,
}

/// Settings of the whole network.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Who attaches pods.
    pub mode: Mode,
    /// Settings of CNI.
    pub cni: CniSettings,
    /// Settings of the built-in network.
    pub builtin: BuiltinSettings,
}

/// Settings of CNI.
#[derive(Debug, Clone)]
pub struct CniSettings {
    /// Where network configurations lie.
    pub conf_dir: PathBuf,
    /// Where plugins are looked for, in this order.
    pub bin_dirs: Vec<PathBuf>,
    /// How long one plugin may take; past it, its process group is killed.
    pub deadline: Duration,
}

impl Default for CniSettings {
    fn default() -> Self {
        Self {
            conf_dir: "/etc/cni/net.d".into(),
            bin_dirs: vec!["/opt/cni/bin".into()],
            deadline: Duration::from_secs(60),
        }
    }
}

/// Settings of the built-in network.
#[derive(Debug, Clone)]
pub struct BuiltinSettings {
    /// Name of the bridge: 1 to 15 bytes. Two daemons on one node need two names.
    pub bridge: String,
    /// Subnets of the pods, at most one per family; the first one gives the pod IP.
    pub subnets: Vec<Subnet>,
    /// Whether what leaves the subnets takes an address of the node.
    pub masquerade: bool,
    /// MTU of pods' interfaces; none takes that of the interface with the default route.
    pub mtu: Option<u32>,
}

impl Default for BuiltinSettings {
    fn default() -> Self {
        Self {
            bridge: "berth0".into(),
            subnets: Subnet::parse("10.88.0.0/16").into_iter().collect(),
            masquerade: true,
            mtu: None,
        }
    }
}
