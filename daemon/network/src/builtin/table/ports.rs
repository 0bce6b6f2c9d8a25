//! Host ports as map elements: (address,) protocol and port of the node lead to address and port of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::layout::{IPV4, IPV6};
use crate::attachment::PodIp;
use crate::netlink::NetlinkError;
use crate::netlink::message::{CREATE, Message, attrs};
use crate::netlink::nft::{Batch, INET, Nft, Verb, body};
use crate::netlink::route::{ip_of, octets};
use crate::netlink::rule::{Header, Meta, Rule};
use crate::pod::{PodNet, PortMapping};
use crate::settings::BuiltinSettings;

const SET_TABLE: u16 = 1;
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_LEN: u16 = 5;
const SET_DATA_TYPE: u16 = 6;
const SET_DATA_LEN: u16 = 7;
const SET_ID: u16 = 10;
const FLAG_MAP: u32 = 8;
const ELEMENTS: u16 = 3;
const ELEM: u16 = 1;
const ELEM_KEY: u16 = 1;
const ELEM_DATA: u16 = 2;
const VALUE: u16 = 1;
/// nft's numbers for types, so that a listing reads well: 6 bits each when joined.
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;
const TYPE_PROTO: u32 = 12;
const TYPE_SERVICE: u32 = 13;
/// Elements per message: an attribute ends at 64 KiB.
const CHUNK: usize = 500;

/// One of the four maps: a family, bound to one address or to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Map {
    pub(super) ipv4: bool,
    bound: bool,
    name: &'static str,
    id: u32,
}

/// The maps; of one family the bound one comes first, since its rule must win.
pub(super) const MAPS: [Map; 4] = [
    Map { ipv4: true, bound: true, name: "ports4_at", id: 1 },
    Map { ipv4: true, bound: false, name: "ports4", id: 2 },
    Map { ipv4: false, bound: true, name: "ports6_at", id: 3 },
    Map { ipv4: false, bound: false, name: "ports6", id: 4 },
];

impl Map {
    fn width(self) -> u32 {
        if self.ipv4 { 4 } else { 16 }
    }

    /// Makes the empty map.
    pub(super) fn create(self, batch: &mut Batch, table: &str) {
        let ip = if self.ipv4 { TYPE_IPV4 } else { TYPE_IPV6 };
        let at = if self.bound { (ip, self.width()) } else { (0, 0) };
        batch.push(format!("make map {}", self.name), Verb::NewSet, INET, CREATE, |m| {
            let m = m.text(SET_TABLE, table).text(SET_NAME, self.name).be32(SET_FLAGS, FLAG_MAP);
            let m =
                m.be32(SET_KEY_TYPE, at.0 << 12 | TYPE_PROTO << 6 | TYPE_SERVICE).be32(SET_KEY_LEN, at.1 + 8);
            m.be32(SET_DATA_TYPE, ip << 6 | TYPE_SERVICE)
                .be32(SET_DATA_LEN, self.width() + 4)
                .be32(SET_ID, self.id)
        });
    }

    /// `[daddr .] l4proto . dport` → dnat.
    pub(super) fn rule(self) -> Rule {
        let family = if self.ipv4 { IPV4 } else { IPV6 };
        let words = self.width() / 4;
        let offset = if self.ipv4 { 16 } else { 24 };
        let mut rule = Rule::default().meta(Meta::NfProto, 0).compare(true, &[family]);
        let mut slot = 0;
        if self.bound {
            rule = rule.payload(Header::Network, offset, self.width(), 0);
            slot = words;
        }
        let rule = rule.meta(Meta::L4Proto, slot).payload(Header::Transport, 2, 2, slot + 1);
        rule.lookup(self.name).dnat(family, words)
    }
}

type Element = (Vec<u8>, Vec<u8>);

/// Open ports, as the elements that they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::builtin) struct Ports {
    elements: BTreeMap<Map, BTreeSet<Element>>,
}

impl Ports {
    /// The elements that pods' mappings need: one per family that mapping and pod share.
    pub(in crate::builtin) fn of<'a>(pods: impl IntoIterator<Item = (&'a PodNet, &'a [PodIp])>) -> Self {
        let mut ports = Self::default();
        for (pod, ips) in pods {
            let pairs = pod.ports.iter().flat_map(|port| ips.iter().map(move |ip| (port, ip.address)));
            for (map, element) in pairs.filter_map(|(port, ip)| element(port, ip)) {
                ports.elements.entry(map).or_default().insert(element);
            }
        }
        ports
    }

    pub(in crate::builtin) fn is_empty(&self) -> bool {
        self.elements.values().all(BTreeSet::is_empty)
    }

    /// Takes others in.
    pub(in crate::builtin) fn extend(&mut self, others: Self) {
        for (map, elements) in others.elements {
            self.elements.entry(map).or_default().extend(elements);
        }
    }

    /// Those whose map these settings make.
    pub(super) fn only(mut self, settings: &BuiltinSettings) -> Self {
        self.elements.retain(|map, _| settings.subnets.iter().any(|s| s.is_ipv4() == map.ipv4));
        self
    }

    /// Those that lead to one of these pods.
    pub(in crate::builtin) fn leading_to(mut self, pods: &BTreeSet<IpAddr>) -> Self {
        for (map, elements) in &mut self.elements {
            elements.retain(|(_, data)| pod_of(*map, data).is_some_and(|ip| pods.contains(&ip)));
        }
        self
    }

    fn chunks(&self) -> impl Iterator<Item = (Map, Vec<&Element>)> {
        self.elements.iter().flat_map(|(map, elements)| {
            let all: Vec<&Element> = elements.iter().collect();
            all.chunks(CHUNK).map(|chunk| (*map, chunk.to_vec())).collect::<Vec<_>>()
        })
    }
}

impl FromIterator<(Map, Element)> for Ports {
    fn from_iter<I: IntoIterator<Item = (Map, Element)>>(all: I) -> Self {
        let mut ports = Self::default();
        for (map, element) in all {
            ports.elements.entry(map).or_default().insert(element);
        }
        ports
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.elements.iter().flat_map(|(map, all)| all.iter().map(|(key, _)| spell(*map, key)));
        f.write_str(&keys.collect::<Vec<_>>().join(", "))
    }
}

fn element(port: &PortMapping, pod: IpAddr) -> Option<(Map, Element)> {
    // An unspecified address still names its family.
    if port.host_ip.is_some_and(|host| host.is_ipv4() != pod.is_ipv4()) {
        return None;
    }
    let bound = port.bound_to();
    let map = MAPS.into_iter().find(|m| m.ipv4 == pod.is_ipv4() && m.bound == bound.is_some())?;
    let mut key = bound.map(octets).unwrap_or_default();
    key.extend_from_slice(&[port.protocol.number(), 0, 0, 0]);
    key.extend_from_slice(&word(port.host_port));
    let mut data = octets(pod);
    data.extend_from_slice(&word(port.container_port));
    Some((map, (key, data)))
}

/// A port, padded to a register.
fn word(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

fn pod_of(map: Map, data: &[u8]) -> Option<IpAddr> {
    ip_of(data.get(..usize::try_from(map.width()).ok()?)?)
}

fn spell(map: Map, key: &[u8]) -> String {
    let (at, rest) = key.split_at(key.len().saturating_sub(8));
    let protocol = match rest.first() {
        Some(6) => "tcp",
        Some(17) => "udp",
        Some(132) => "sctp",
        _ => "?",
    };
    let port = rest.get(4..6).and_then(|p| p.try_into().ok()).map_or(0, u16::from_be_bytes);
    match ip_of(at) {
        Some(ip) if map.bound => format!("{ip} {port}/{protocol}"),
        _ => format!("{port}/{protocol}"),
    }
}

/// Adds elements.
pub(super) fn add(batch: &mut Batch, table: &str, ports: &Ports) {
    for (map, chunk) in ports.chunks() {
        batch.push("open host ports", Verb::NewSetElem, INET, CREATE, |m| write(m, table, map, &chunk, true));
    }
}

/// Removes elements.
pub(super) fn remove(batch: &mut Batch, table: &str, ports: &Ports) {
    for (map, chunk) in ports.chunks() {
        batch.push("close host ports", Verb::DelSetElem, INET, 0, |m| write(m, table, map, &chunk, false));
    }
}

fn write(message: Message, table: &str, map: Map, chunk: &[&Element], with_data: bool) -> Message {
    let one = |m: Message, (key, data): &Element| {
        m.nest(ELEM, |m| {
            let m = m.nest(ELEM_KEY, |m| m.attr(VALUE, key));
            if with_data { m.nest(ELEM_DATA, |m| m.attr(VALUE, data)) } else { m }
        })
    };
    let message = message.text(SET_TABLE, table).text(SET_NAME, map.name);
    message.nest(ELEMENTS, |m| chunk.iter().fold(m, |m, element| one(m, element)))
}

/// Every element of the table's maps; none when the table is missing.
pub(super) fn list(nft: &Nft, table: &str) -> Result<Ports, NetlinkError> {
    let mut found = Vec::new();
    for map in MAPS {
        let fill = |m: Message| m.text(SET_TABLE, table).text(SET_NAME, map.name);
        for reply in nft.list("list host ports", Verb::GetSetElem, INET, fill)? {
            let elements = attrs(body(&reply)).find(ELEMENTS).map(attrs);
            found.extend(elements.into_iter().flatten().filter_map(|(_, e)| read(e)).map(|e| (map, e)));
        }
    }
    Ok(found.into_iter().collect())
}

fn read(element: &[u8]) -> Option<Element> {
    let value = |kind| attrs(element).find(kind).and_then(|v| attrs(v).find(VALUE)).map(<[u8]>::to_vec);
    Some((value(ELEM_KEY)?, value(ELEM_DATA)?))
}
