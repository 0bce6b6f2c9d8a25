//! A pod's host ports: the map elements, and the connections that were there before or would stay after.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{BuiltinError, sysctl, table};
use crate::attachment::{BuiltinRecord, PodIp};
use crate::netlink::conntrack::Conntrack;
use crate::netlink::nft::Nft;
use crate::netlink::route::Route;
use crate::pod::{PodNet, Protocol};

/// Opens all of a pod's ports or none.
pub(super) fn open(
    route: &Route,
    nft: &Nft,
    record: &BuiltinRecord,
    pod: &PodNet,
    ips: &[PodIp],
) -> Result<(), BuiltinError> {
    sysctl::route_localnet(&record.bridge)?;
    table::add_ports(nft, &record.bridge, &table::Ports::of([(pod, ips)]))?;
    // A new TCP connection is looked up afresh; a datagram flow goes on as it was, past the new mapping.
    let udp: BTreeSet<u16> =
        pod.ports.iter().filter(|p| p.protocol == Protocol::Udp).map(|p| p.host_port).collect();
    if udp.is_empty() {
        return Ok(());
    }
    let local: BTreeSet<IpAddr> = route.every_address()?.into_iter().map(|(_, ip, _)| ip).collect();
    let conntrack = Conntrack::open()?;
    for port in udp {
        for ipv4 in ips.iter().map(|ip| ip.address.is_ipv4()) {
            conntrack.forget_port(ipv4, Protocol::Udp.number(), port, &|ip| local.contains(&ip))?;
        }
    }
    Ok(())
}

/// Closes every port that leads to an address the pod holds, and forgets the connections through them.
pub(super) fn close(record: &BuiltinRecord, held: &BTreeSet<IpAddr>) -> Result<(), BuiltinError> {
    if held.is_empty() {
        return Ok(());
    }
    table::close_ports(&Nft::open()?, &record.bridge, held)?;
    let conntrack = Conntrack::open()?;
    for ip in held {
        conntrack.forget_pod(*ip)?;
    }
    Ok(())
}
