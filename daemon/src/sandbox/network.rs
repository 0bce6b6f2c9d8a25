//! What a pod asks of the network, in the network's words.

use super::{Protocol, SandboxConfig};
use berth_core::SandboxId;
use berth_network::pod::{Bandwidth, Dns, PodNet, PortMapping, Protocol as Wire};
use std::path::Path;

/// The annotations by which Kubernetes asks for limits.
const INGRESS: &str = "kubernetes.io/ingress-bandwidth";
const EGRESS: &str = "kubernetes.io/egress-bandwidth";
/// The burst, in bits: as much as the field gives.
const BURST: u64 = i32::MAX as u64;

/// The wishes of a sandbox.
pub(super) fn wishes(id: SandboxId, config: &SandboxConfig, netns: &Path) -> PodNet {
    let dns = config.dns.clone().unwrap_or_default();
    PodNet {
        sandbox: id.to_string(),
        namespace: config.namespace.clone(),
        name: config.name.clone(),
        uid: config.uid.clone(),
        netns: netns.to_owned(),
        ports: ports(config),
        dns: Dns { servers: dns.servers, searches: dns.searches, options: dns.options },
        bandwidth: bandwidth(config),
        annotations: config.annotations.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        ..PodNet::default()
    }
}

fn ports(config: &SandboxConfig) -> Vec<PortMapping> {
    let mapped = config.port_mappings.iter().filter(|port| port.host_port != 0);
    let mapping = |port: &super::PortMapping| PortMapping {
        protocol: match port.protocol {
            Protocol::Tcp => Wire::Tcp,
            Protocol::Udp => Wire::Udp,
            Protocol::Sctp => Wire::Sctp,
        },
        host_port: port.host_port,
        container_port: port.container_port,
        host_ip: port.host_ip.parse().ok(),
    };
    mapped.map(mapping).collect()
}

fn bandwidth(config: &SandboxConfig) -> Option<Bandwidth> {
    let rate = |key: &str| config.annotations.get(key).and_then(|text| quantity(text)).unwrap_or(0);
    let (ingress_rate, egress_rate) = (rate(INGRESS), rate(EGRESS));
    let burst = |rate: u64| if rate == 0 { 0 } else { BURST };
    let (ingress_burst, egress_burst) = (burst(ingress_rate), burst(egress_rate));
    let limits = Bandwidth { ingress_rate, ingress_burst, egress_rate, egress_burst };
    (ingress_rate + egress_rate > 0).then_some(limits)
}

/// A Kubernetes quantity as a whole number: `10M`, `1Gi`, `500000`.
fn quantity(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_without_a_host_port_are_left_out() {
        let port = |host_port| super::super::PortMapping {
            protocol: Protocol::Udp,
            container_port: 53,
            host_port,
            host_ip: "127.0.0.1".into(),
        };
        let config = SandboxConfig { port_mappings: vec![port(0), port(5353)], ..SandboxConfig::default() };
        let ports = ports(&config);
        assert_eq!(ports.len(), 1);
        assert_eq!((ports[0].host_port, ports[0].protocol), (5353, Wire::Udp));
    }

    #[test]
    fn quantities_are_read_or_ignored() {
        assert_eq!(quantity("10M"), Some(10_000_000));
        assert_eq!(quantity("1Gi"), Some(1 << 30));
        assert_eq!(quantity("7"), Some(7));
        for bad in ["", "M", "1X", "-1", "99999999999999999999", "18446744073709551615k"] {
            assert_eq!(quantity(bad), None, "{bad}");
        }
    }
}
