//! What a pod asks of the network, in plain types.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A pod that is to be attached. Saved inside its [`crate::Attachment`], since DEL needs it again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodNet {
    /// The sandbox id: 64 lower-case hex digits.
    pub sandbox: String,
    /// Kubernetes namespace of the pod.
    pub namespace: String,
    /// Kubernetes name of the pod.
    pub name: String,
    /// Kubernetes uid of the pod.
    pub uid: String,
    /// Where the pod's network namespace is pinned.
    pub netns: PathBuf,
    /// Host ports that lead to the pod.
    pub ports: Vec<PortMapping>,
    /// The pod's resolver settings, for plugins with the `dns` capability.
    pub dns: Dns,
    /// Limits, for plugins with the `bandwidth` capability. The built-in network has none.
    pub bandwidth: Option<Bandwidth>,
    /// Other names of the pod, for plugins with the `aliases` capability.
    pub aliases: Vec<String>,
    /// Ranges to take the addresses from, one list per address, for the `ipRanges` capability.
    pub ip_ranges: Vec<Vec<IpRange>>,
    /// A wanted hardware address, for the `mac` capability.
    pub mac: Option<String>,
    /// Wanted addresses with prefix, for the `ips` capability.
    pub ips: Vec<String>,
    /// The pod's annotations as `key`, `value`, for the `io.kubernetes.cri.pod-annotations` capability.
    pub annotations: Vec<(String, String)>,
}

/// Transport protocol of a port mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The number in the IP header.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }

    /// The lower-case word that plugins expect.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }
}

/// One host port that leads to a port of the pod. Mappings with host port 0 must be left out by the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortMapping {
    /// Protocol of both ports.
    pub protocol: Protocol,
    /// Port on the node.
    pub host_port: u16,
    /// Port in the pod.
    pub container_port: u16,
    /// Address of the node that the mapping is bound to; none or an unspecified address means all.
    #[serde(default)]
    pub host_ip: Option<IpAddr>,
}

impl PortMapping {
    /// The host address, unless it is missing or unspecified.
    pub fn bound_to(&self) -> Option<IpAddr> {
        self.host_ip.filter(|ip| !ip.is_unspecified())
    }
}

/// Resolver settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// Name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options such as `ndots:5`.
    pub options: Vec<String>,
}

/// Bandwidth limits in bits, as the `bandwidth` capability wants them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bandwidth {
    /// Bits per second into the pod.
    pub ingress_rate: u64,
    /// Burst in bits into the pod.
    pub ingress_burst: u64,
    /// Bits per second out of the pod.
    pub egress_rate: u64,
    /// Burst in bits out of the pod.
    pub egress_burst: u64,
}

/// One range of addresses for the `ipRanges` capability.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpRange {
    /// Subnet in CIDR form.
    pub subnet: String,
    /// First address.
    #[serde(skip_serializing_if = "Option::is_none", rename = "rangeStart")]
    pub start: Option<IpAddr>,
    /// Last address.
    #[serde(skip_serializing_if = "Option::is_none", rename = "rangeEnd")]
    pub end: Option<IpAddr>,
    /// Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}
