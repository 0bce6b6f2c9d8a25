//! The bridge: made with the first pod, recognised by its name and its addresses.

use super::{BuiltinError, address, sysctl};
use crate::netlink::route::{Link, Route};
use crate::settings::BuiltinSettings;
use crate::subnet::Subnet;

/// The longest interface name the kernel takes.
const NAME_MAX: usize = 15;

/// The alias of a bridge that was made here. One that the administrator made is used, and never removed.
const OURS: &str = "berth pods";

/// Default routes lead everywhere and clash with nothing; some VPNs write theirs as two halves.
const SPLIT_DEFAULT: u8 = 1;

/// Makes what is missing of the bridge and gives its index.
pub(super) fn ensure(route: &Route, settings: &BuiltinSettings) -> Result<u32, BuiltinError> {
    let link = match look(route, settings)? {
        Some(link) => link,
        None => make(route, settings)?,
    };
    let has = route.addresses(link.index)?;
    for subnet in &settings.subnets {
        if has.contains(&(subnet.gateway(), subnet.prefix())) {
            continue;
        }
        if !subnet.is_ipv4() {
            sysctl::ipv6_at_once(&settings.bridge)?;
        }
        route.add_address(link.index, subnet.gateway(), subnet.prefix())?;
        sysctl::forwarding(subnet.is_ipv4())?;
    }
    sysctl::refuse_router_advertisements(&settings.bridge)?;
    if !link.up {
        route.up(&settings.bridge, link.index)?;
    }
    Ok(link.index)
}

/// Whether the bridge is there, or could be made.
pub(super) fn look(route: &Route, settings: &BuiltinSettings) -> Result<Option<Link>, BuiltinError> {
    validate(settings)?;
    let name = &settings.bridge;
    let link = route.link(name)?;
    if let Some(link) = link.as_ref().filter(|l| l.kind != "bridge") {
        let kind = if link.kind.is_empty() { "physical interface".into() } else { link.kind.clone() };
        return Err(BuiltinError::NotABridge { name: name.clone(), kind });
    }
    let own = link.as_ref().map(|l| l.index);
    for subnet in &settings.subnets {
        free(route, subnet, own)?;
    }
    Ok(link)
}

fn make(route: &Route, settings: &BuiltinSettings) -> Result<Link, BuiltinError> {
    let name = &settings.bridge;
    // A bridge without an address of its own takes the lowest of its ports', which changes with every pod.
    let mac = settings.subnets.first().map_or([0x0a, 0x58, 0, 0, 0, 1], |s| address::mac(s.gateway()));
    match route.add_bridge(name, mac, settings.mtu) {
        Err(e) if !e.is_existing() => return Err(e.into()),
        _ => {}
    }
    let missing = || BuiltinError::Settings { why: format!("bridge {name} went away while it was made") };
    let link = route.link(name)?.ok_or_else(missing)?;
    route.set_alias(name, link.index, OURS)?;
    Ok(link)
}

/// The MTU of the interface that leads out of the node: pods with a larger one would lose what they send through it.
pub(super) fn uplink_mtu(route: &Route, subnets: &[Subnet]) -> Result<Option<u32>, BuiltinError> {
    let mut smallest = None;
    for ipv4 in subnets.iter().map(Subnet::is_ipv4) {
        let hops = route.routes(ipv4)?;
        for index in hops.iter().filter(|hop| hop.to.prefix() == 0).filter_map(|hop| hop.through) {
            let mtu = route.link_at(index)?.and_then(|link| link.mtu);
            smallest = smallest.into_iter().chain(mtu).min();
        }
    }
    Ok(smallest)
}

/// Removes the bridge if it was made here.
pub(super) fn remove(route: &Route, name: &str) -> Result<(), BuiltinError> {
    match route.link(name)? {
        Some(link) if link.kind == "bridge" && link.alias == OURS => Ok(route.delete(name, link.index)?),
        _ => Ok(()),
    }
}

/// Puts interfaces back on the bridge that fell off it because it was deleted under running pods.
pub(super) fn adopt<'a>(
    route: &Route,
    bridge: u32,
    interfaces: impl Iterator<Item = &'a str>,
) -> Result<(), BuiltinError> {
    for name in interfaces {
        if let Some(link) = route.link(name)?.filter(|link| link.master != Some(bridge)) {
            route.set_master(name, link.index, bridge)?;
        }
    }
    Ok(())
}

fn validate(settings: &BuiltinSettings) -> Result<(), BuiltinError> {
    let fail = |why: String| Err(BuiltinError::Settings { why });
    let name = settings.bridge.as_str();
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > NAME_MAX || name.contains(odd) || matches!(name, "." | "..") {
        return fail(format!("{name:?} cannot name a bridge: 1 to {NAME_MAX} bytes without space, / and :"));
    }
    let families: Vec<bool> = settings.subnets.iter().map(Subnet::is_ipv4).collect();
    match families[..] {
        [] => fail("there are no subnets".into()),
        [a, b] if a == b => fail("two subnets of one family; one IPv4 and one IPv6 are possible".into()),
        [_] | [_, _] => Ok(()),
        _ => fail("more than two subnets; one IPv4 and one IPv6 are possible".into()),
    }
}

/// A subnet that the node reaches otherwise would cut it off from there.
fn free(route: &Route, subnet: &Subnet, own: Option<u32>) -> Result<(), BuiltinError> {
    let hops = route.routes(subnet.is_ipv4())?;
    let clash = hops.iter().find(|hop| {
        hop.to.prefix() > SPLIT_DEFAULT && hop.to.overlaps(subnet) && (own.is_none() || hop.through != own)
    });
    match clash {
        None => Ok(()),
        Some(hop) => {
            let link = hop.through.map(|index| route.link_at(index)).transpose()?.flatten();
            let interface = link.map_or_else(|| "?".into(), |link| link.name);
            Err(BuiltinError::SubnetInUse { subnet: *subnet, route: hop.to, interface })
        }
    }
}
