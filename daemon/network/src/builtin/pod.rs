//! One pod's interface: a veth pair whose inner end is made in the pod's namespace.

use super::{BuiltinError, address, sysctl};
use crate::attachment::{BuiltinRecord, PodIp};
use crate::manager::POD_INTERFACE;
use crate::netlink::route::{Mac, Route, Veth};
use crate::netns::Netns;

/// Name of the host's end: `veth` and the head of the sandbox id, 15 bytes.
pub(super) fn host_interface(sandbox: &str) -> String {
    let head: String = sandbox.chars().filter(char::is_ascii_alphanumeric).take(11).collect();
    format!("veth{head}")
}

/// All that is needed to plug a pod in.
pub(super) struct Plug<'a> {
    pub(super) record: &'a BuiltinRecord,
    pub(super) netns: &'a Netns,
    pub(super) ips: &'a [PodIp],
    pub(super) bridge: u32,
    pub(super) mtu: Option<u32>,
}

impl Plug<'_> {
    /// Makes the pair and configures the pod's end; gives its hardware address.
    pub(super) fn connect(&self, route: &Route) -> Result<String, BuiltinError> {
        let name = &self.record.host_interface;
        if let Some(stale) = route.link(name)? {
            route.delete(name, stale.index)?;
        }
        let mac = self.ips.first().map_or([0x0a, 0x58, 0, 0, 0, 2], |ip| address::mac(ip.address));
        route.add_veth(&Veth {
            name,
            bridge: self.bridge,
            peer: POD_INTERFACE,
            peer_mac: mac,
            netns: self.netns,
            mtu: self.mtu,
        })?;
        let made = route.link(name)?.ok_or_else(|| drifted("the host's end is missing"))?;
        route.hairpin(name, made.index)?;
        self.netns.run(|| self.configure())??;
        Ok(text(mac))
    }

    /// Runs inside the pod's namespace.
    fn configure(&self) -> Result<(), BuiltinError> {
        let route = Route::open()?;
        let link = route.link(POD_INTERFACE)?.ok_or_else(|| drifted("eth0 is missing"))?;
        for ip in self.ips {
            if ip.address.is_ipv6() {
                sysctl::ipv6_at_once(POD_INTERFACE)?;
            }
            route.add_address(link.index, ip.address, ip.prefix)?;
        }
        sysctl::refuse_router_advertisements(POD_INTERFACE)?;
        route.up(POD_INTERFACE, link.index)?;
        for gateway in self.ips.iter().filter_map(|ip| ip.gateway) {
            route.add_default(link.index, gateway)?;
        }
        Ok(())
    }
}

/// Compares what a pod has with what was recorded.
pub(super) fn check(record: &BuiltinRecord, netns: &Netns, ips: &[PodIp]) -> Result<(), BuiltinError> {
    let route = Route::open()?;
    let bridge = route.link(&record.bridge)?.ok_or_else(|| drifted("its bridge is missing"))?;
    let host = route.link(&record.host_interface)?.ok_or_else(|| drifted("the host's end is missing"))?;
    if host.master != Some(bridge.index) {
        return Err(drifted("the host's end is not on the bridge"));
    }
    netns.run(|| {
        let route = Route::open()?;
        let link = route.link(POD_INTERFACE)?.ok_or_else(|| drifted("eth0 is missing"))?;
        let has = route.addresses(link.index)?;
        match ips.iter().find(|ip| !has.contains(&(ip.address, ip.prefix))) {
            Some(lost) => Err(drifted(&format!("address {} is missing", lost.address))),
            None => Ok(()),
        }
    })?
}

fn text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn drifted(why: &str) -> BuiltinError {
    BuiltinError::Drifted { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_whatever_the_id() {
        assert_eq!(host_interface(&"0123456789abcdef".repeat(4)), "veth0123456789a");
        assert_eq!(host_interface("../x/y"), "vethxy");
    }
}
