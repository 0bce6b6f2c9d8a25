//! Which address a pod gets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::BuiltinError;
use crate::attachment::PodIp;
use crate::leases::Leases;
use crate::netlink::route::Mac;
use crate::subnet::Subnet;

/// Where each subnet goes on: an address that was given back is given out again as late as possible, since peers
/// still hold connections to it.
pub(super) type Cursor = BTreeMap<Subnet, u128>;

/// The first pod's place in a subnet: after base and gateway.
const FIRST: u128 = 2;

/// The sandbox's address in a subnet, leased.
pub(super) fn lease(
    leases: &dyn Leases,
    subnet: &Subnet,
    sandbox: &str,
    cursor: &mut Cursor,
) -> Result<PodIp, BuiltinError> {
    let mut next = None;
    let got = leases.acquire(&subnet.to_string(), sandbox, &mut |busy| {
        // After a restart, on from the highest that is held: what lies below may have been given back just now.
        let above = || busy.last().map_or(0, |ip| subnet.place_of(*ip).saturating_sub(FIRST) + 1);
        let start = cursor.get(subnet).copied().unwrap_or_else(above);
        let (ip, after) = choose(subnet, busy, start)?;
        next = Some(after);
        Some(ip)
    })?;
    cursor.extend(next.map(|next| (*subnet, next)));
    let address = got.ok_or(BuiltinError::Full { subnet: *subnet, pods: subnet.pods() })?;
    Ok(PodIp { address, prefix: subnet.prefix(), gateway: Some(subnet.gateway()) })
}

/// A free address at or after `start` (counted from the first pod's), and where to go on next time.
fn choose(subnet: &Subnet, busy: &BTreeSet<IpAddr>, start: u128) -> Option<(IpAddr, u128)> {
    let pods = subnet.pods();
    // One more than is busy suffices to meet a free one, so a huge subnet is never walked.
    let tries = pods.min(u128::try_from(busy.len()).ok()? + 1);
    let places = (0..tries).map(|i| (start + i) % pods);
    places.map(|n| (subnet.nth(FIRST + n), (n + 1) % pods)).find(|(ip, _)| !busy.contains(ip))
}

/// A hardware address that follows the address: who gets the address later gets the neighbours' caches right too.
pub(super) fn mac(ip: IpAddr) -> Mac {
    let tail = match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            [a, b, c, d]
        }
    };
    // Locally administered, unicast.
    [0x0a, 0x58, tail[0], tail[1], tail[2], tail[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::MemoryLeases;

    #[test]
    fn addresses_go_round_and_end_with_an_error() {
        let subnet = Subnet::parse("10.9.0.0/29").unwrap();
        let leases = MemoryLeases::default();
        let mut cursor = Cursor::default();
        let mut get = |who: &str| lease(&leases, &subnet, who, &mut cursor).map(|ip| ip.address.to_string());
        let got: Vec<_> = ["a", "b", "c"].iter().map(|who| get(who).unwrap()).collect();
        assert_eq!(got, ["10.9.0.2", "10.9.0.3", "10.9.0.4"]);
        assert_eq!(get("a").unwrap(), "10.9.0.2", "an owner keeps its address");
        leases.release("a").unwrap();
        assert_eq!(get("d").unwrap(), "10.9.0.5", "the address just freed comes last");
        assert_eq!(get("e").unwrap(), "10.9.0.6");
        assert_eq!(get("f").unwrap(), "10.9.0.2");
        assert!(matches!(get("g"), Err(BuiltinError::Full { pods: 5, .. })));
    }

    #[test]
    fn after_a_restart_it_goes_on_above_what_is_held() {
        let subnet = Subnet::parse("10.9.0.0/29").unwrap();
        let leases = MemoryLeases::default();
        leases.acquire("10.9.0.0/29", "old", &mut |_| Some(subnet.nth(4))).unwrap();
        let got = lease(&leases, &subnet, "a", &mut Cursor::default()).unwrap();
        assert_eq!(got.address, subnet.nth(5));
    }

    #[test]
    fn a_subnet_without_room_is_full_at_once() {
        let subnet = Subnet::parse("10.9.0.0/31").unwrap();
        let full = lease(&MemoryLeases::default(), &subnet, "a", &mut Cursor::default());
        assert!(matches!(full, Err(BuiltinError::Full { .. })));
    }
}
