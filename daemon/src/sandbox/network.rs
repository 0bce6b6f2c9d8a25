//! What a pod asks of the network, in the network's words.

use super::{Protocol, SandboxConfig};
use crate::pod::Error;
use berth_core::SandboxId;
use berth_network::pod::{Bandwidth, Dns, PodNet, PortMapping, Protocol as Wire};
use std::path::Path;

/// The wishes of a sandbox.
///
/// # Errors
/// An annotation that asks for a bandwidth that is none.
pub(super) fn wishes(id: SandboxId, config: &SandboxConfig, netns: &Path) -> Result<PodNet, Error> {
    let dns = config.dns.clone().unwrap_or_default();
    let pairs = config.annotations.iter().map(|(key, value)| (key.clone(), value.clone()));
    let annotations: Vec<(String, String)> = pairs.collect();
    let bandwidth = Bandwidth::from_annotations(&annotations);
    let bandwidth = bandwidth.map_err(|error| Error::invalid("config.annotations", error.to_string()))?;
    Ok(PodNet {
        sandbox: id.to_string(),
        namespace: config.namespace.clone(),
        name: config.name.clone(),
        uid: config.uid.clone(),
        netns: netns.to_owned(),
        ports: ports(config),
        dns: Dns { servers: dns.servers, searches: dns.searches, options: dns.options },
        bandwidth,
        annotations,
        ..PodNet::default()
    })
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
}
