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

/// One host port that leads to a port of the pod. Host port 0 means none and is left out of the plan.
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

/// Annotations by which Kubernetes limits a pod's bandwidth.
const INGRESS: &str = "kubernetes.io/ingress-bandwidth";
const EGRESS: &str = "kubernetes.io/egress-bandwidth";
/// The rates that Kubernetes allows: 1 kbit/s to 1 Pbit/s.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000_000;

/// A bandwidth annotation makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key}: {value:?} is no rate in bits per second between 1k and 1P; write it like 10M")]
pub struct BandwidthError {
    /// The annotation.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

impl Bandwidth {
    /// The limits that a pod's annotations ask for; none if they ask for none.
    pub fn from_annotations(annotations: &[(String, String)]) -> Result<Option<Self>, BandwidthError> {
        let rate = |key: &'static str| {
            let value = annotations.iter().find(|(k, _)| k == key).map(|(_, value)| value);
            let parse = |value: &String| {
                let rate = quantity(value).filter(|rate| RATES.contains(rate));
                rate.ok_or_else(|| BandwidthError { key, value: value.clone() })
            };
            value.map(parse).transpose()
        };
        let (ingress, egress) = (rate(INGRESS)?, rate(EGRESS)?);
        if ingress.is_none() && egress.is_none() {
            return Ok(None);
        }
        // A burst that never binds, as other runtimes give it: the rate alone is what was asked for.
        let burst = |rate: Option<u64>| rate.map_or(0, |_| u64::from(u32::MAX));
        Ok(Some(Self {
            ingress_rate: ingress.unwrap_or(0),
            ingress_burst: burst(ingress),
            egress_rate: egress.unwrap_or(0),
            egress_burst: burst(egress),
        }))
    }
}

/// A whole number with one of the suffixes of Kubernetes.
fn quantity(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit: u64 = match suffix {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(ingress: &str) -> Result<Option<Bandwidth>, BandwidthError> {
        Bandwidth::from_annotations(&[(INGRESS.to_owned(), ingress.to_owned())])
    }

    #[test]
    fn rates_are_read_and_nonsense_is_refused() {
        assert_eq!(Bandwidth::from_annotations(&[("x".into(), "1M".into())]), Ok(None));
        let got = limits("10M").unwrap().unwrap();
        assert_eq!((got.ingress_rate, got.egress_rate, got.egress_burst), (10_000_000, 0, 0));
        assert_eq!(limits("1Mi").unwrap().unwrap().ingress_rate, 1 << 20);
        for bad in ["", "M", "10", "-1M", "1.5M", "2P", "99999999999999999999", "1m"] {
            let error = limits(bad).unwrap_err();
            assert!(error.to_string().contains(INGRESS), "{bad}");
        }
    }
}
