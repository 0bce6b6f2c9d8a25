//! The record of one pod's attachment: what it got, and all that DEL needs to take it away again.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::pod::PodNet;

/// One pod's place in the network. Saved by the caller before setup (as planned) and after it (as attached).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// What the pod asked for.
    pub pod: PodNet,
    /// Who attaches the pod, with what is needed to detach it even when the configuration has gone.
    pub by: By,
    /// False from plan until setup has succeeded.
    pub attached: bool,
    /// Name of the pod's main interface.
    pub interface: String,
    /// Hardware address of that interface.
    #[serde(default)]
    pub mac: Option<String>,
    /// The pod's addresses; the first one is the pod IP, and the order never changes.
    #[serde(default)]
    pub ips: Vec<PodIp>,
}

impl Attachment {
    /// The addresses in their order, as PodSandboxStatus shows them.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.ips.iter().map(|ip| ip.address).collect()
    }

    /// The word for logs and verbose status: `builtin`, `cni` or `none`.
    pub fn mode(&self) -> &'static str {
        match self.by {
            By::None => "none",
            By::Builtin(_) => "builtin",
            By::Cni(_) => "cni",
        }
    }
}

/// Who attached the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Nobody: the pod has its loopback only.
    None,
    /// The bridge of this daemon.
    Builtin(BuiltinRecord),
    /// Plugins.
    Cni(CniRecord),
}

/// What the built-in network needs to detach a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltinRecord {
    /// The bridge that the pod hangs on.
    pub bridge: String,
    /// The host's end of the pod's veth pair.
    pub host_interface: String,
}

/// What CNI needs to detach a pod: nothing of it is looked up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniRecord {
    /// Name of the network.
    pub network: String,
    /// The file that the configuration came from, for messages.
    pub file: String,
    /// The network configuration list as it was at ADD, verbatim JSON.
    pub config: String,
    /// The result of the last plugin of ADD, verbatim JSON; none until ADD has ended.
    #[serde(default)]
    pub result: Option<String>,
}

/// One address of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodIp {
    /// The address.
    pub address: IpAddr,
    /// Length of its prefix.
    pub prefix: u8,
    /// The gateway of its subnet, if there is one.
    #[serde(default)]
    pub gateway: Option<IpAddr>,
}
