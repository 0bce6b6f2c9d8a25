//! rtnetlink: links, addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use super::NetlinkError;
use super::message::{ACK, CREATE, DUMP, EXCL, Message, REQUEST, Reply, attrs, text, u32_at};
use super::socket::Socket;
use crate::subnet::Subnet;

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const SETLINK: u16 = 19;
const NEWADDR: u16 = 20;
const GETADDR: u16 = 22;
const NEWROUTE: u16 = 24;
const GETROUTE: u16 = 26;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_PROTINFO: u16 = 12;
const BRPORT_MODE: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_NET_NS_FD: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const IFF_UP: u32 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Without it an IPv6 address is tentative, so not usable, for a second.
const IFA_F_NODAD: u32 = 0x02;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_TABLE: u16 = 15;
const TABLE_MAIN: u32 = 254;
const PROTO_STATIC: u8 = 4;
const TYPE_UNICAST: u8 = 1;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_BRIDGE: u8 = 7;

/// The loopback interface has this index in every namespace.
const LOOPBACK: u32 = 1;

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) mac: Option<Mac>,
    pub(crate) alias: String,
    pub(crate) mtu: Option<u32>,
    pub(crate) master: Option<u32>,
    pub(crate) up: bool,
}

/// A pair of interfaces to be made in one message: one end here on a bridge, the other in a namespace.
#[derive(Debug)]
pub(crate) struct Veth<'a, N> {
    pub(crate) name: &'a str,
    pub(crate) bridge: u32,
    pub(crate) peer: &'a str,
    pub(crate) peer_mac: Mac,
    pub(crate) netns: &'a N,
    pub(crate) mtu: Option<u32>,
}

/// One route: where to and through which interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) to: Subnet,
    pub(crate) through: Option<u32>,
}

/// A conversation about the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Route {
    socket: Socket,
}

impl Route {
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(None)? })
    }

    /// The interface of a name, if there is one.
    pub(crate) fn link(&self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let ask = Message::new(GETLINK, REQUEST | ACK, &ifinfo(0, 0)).text(IFLA_IFNAME, name);
        self.find(&format!("look up interface {name}"), ask)
    }

    /// The interface of an index, if there is one.
    pub(crate) fn link_at(&self, index: u32) -> Result<Option<Link>, NetlinkError> {
        let ask = Message::new(GETLINK, REQUEST | ACK, &ifinfo(index, 0));
        self.find(&format!("look up interface number {index}"), ask)
    }

    fn find(&self, what: &str, ask: Message) -> Result<Option<Link>, NetlinkError> {
        match self.socket.ask(what, ask) {
            Ok(found) => Ok(found.iter().find_map(link_of)),
            Err(e) if e.is_missing() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Makes a bridge, not yet up.
    pub(crate) fn add_bridge(&self, name: &str, mac: Mac, mtu: Option<u32>) -> Result<(), NetlinkError> {
        let mut make = Message::new(NEWLINK, REQUEST | ACK | CREATE | EXCL, &ifinfo(0, 0))
            .text(IFLA_IFNAME, name)
            .attr(IFLA_ADDRESS, &mac);
        if let Some(mtu) = mtu {
            make = make.u32(IFLA_MTU, mtu);
        }
        let make = make.nest(IFLA_LINKINFO, |m| m.text(INFO_KIND, "bridge"));
        self.socket.ack(&format!("make bridge {name}"), make)
    }

    /// Makes a veth pair: moving an interface after it was made costs twenty times as much.
    pub(crate) fn add_veth<N: AsFd>(&self, veth: &Veth<'_, N>) -> Result<(), NetlinkError> {
        let fd = u32::try_from(veth.netns.as_fd().as_raw_fd()).unwrap_or(u32::MAX);
        let mtu = |m: Message| veth.mtu.map_or(m.clone(), |mtu| m.u32(IFLA_MTU, mtu));
        let peer = |m: Message| {
            // Not up yet: the kernel refuses to open an end that has no peer so far (ENOTCONN).
            let m = m.raw(&ifinfo(0, 0)).text(IFLA_IFNAME, veth.peer);
            mtu(m.attr(IFLA_ADDRESS, &veth.peer_mac).u32(IFLA_NET_NS_FD, fd))
        };
        let make = Message::new(NEWLINK, REQUEST | ACK | CREATE | EXCL, &ifinfo(0, IFF_UP));
        let make = mtu(make.text(IFLA_IFNAME, veth.name).u32(IFLA_MASTER, veth.bridge));
        let make = make
            .nest(IFLA_LINKINFO, |m| m.text(INFO_KIND, "veth").nest(INFO_DATA, |m| m.nest(VETH_PEER, peer)));
        self.socket.ack(&format!("make veth pair {} and {}", veth.name, veth.peer), make)
    }

    /// Removes an interface.
    pub(crate) fn delete(&self, name: &str, index: u32) -> Result<(), NetlinkError> {
        let gone = Message::new(DELLINK, REQUEST | ACK, &ifinfo(index, 0));
        match self.socket.ack(&format!("remove interface {name}"), gone) {
            Err(e) if e.is_missing() => Ok(()),
            done => done,
        }
    }

    /// Brings an interface up.
    pub(crate) fn up(&self, name: &str, index: u32) -> Result<(), NetlinkError> {
        let up = Message::new(NEWLINK, REQUEST | ACK, &ifinfo(index, IFF_UP));
        self.socket.ack(&format!("bring {name} up"), up)
    }

    /// Puts an interface on a bridge.
    pub(crate) fn set_master(&self, name: &str, index: u32, bridge: u32) -> Result<(), NetlinkError> {
        let put = Message::new(NEWLINK, REQUEST | ACK, &ifinfo(index, 0)).u32(IFLA_MASTER, bridge);
        self.socket.ack(&format!("put {name} on its bridge"), put)
    }

    /// Gives an interface a word by which it is known later.
    pub(crate) fn set_alias(&self, name: &str, index: u32, alias: &str) -> Result<(), NetlinkError> {
        let set = Message::new(NEWLINK, REQUEST | ACK, &ifinfo(index, 0)).text(IFLA_IFALIAS, alias);
        self.socket.ack(&format!("set the alias of {name}"), set)
    }

    /// Lets a bridge send a frame back to where it came from: with br_netfilter, a pod that calls itself by a host
    /// port or a service is bridged, not routed, and would never hear of it.
    pub(crate) fn hairpin(&self, name: &str, index: u32) -> Result<(), NetlinkError> {
        let mut fixed = ifinfo(index, 0);
        fixed[0] = AF_BRIDGE;
        let set =
            Message::new(SETLINK, REQUEST | ACK, &fixed).nest(IFLA_PROTINFO, |m| m.attr(BRPORT_MODE, &[1]));
        self.socket.ack(&format!("set {name} to hairpin mode"), set)
    }

    /// Brings loopback up; the kernel then gives it its addresses itself.
    pub(crate) fn loopback_up(&self) -> Result<(), NetlinkError> {
        self.up("lo", LOOPBACK)
    }

    /// Adds an address; one that is there already is a success.
    pub(crate) fn add_address(&self, index: u32, ip: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        let mut fixed = vec![family(ip), prefix, 0, 0];
        fixed.extend_from_slice(&index.to_ne_bytes());
        let mut add = Message::new(NEWADDR, REQUEST | ACK | CREATE | EXCL, &fixed)
            .attr(IFA_LOCAL, &octets(ip))
            .attr(IFA_ADDRESS, &octets(ip));
        if ip.is_ipv6() {
            add = add.u32(IFA_FLAGS, IFA_F_NODAD);
        }
        match self.socket.ack(&format!("add address {ip}/{prefix}"), add) {
            Err(e) if e.is_existing() => Ok(()),
            done => done,
        }
    }

    /// The addresses of an interface, in the kernel's order.
    pub(crate) fn addresses(&self, index: u32) -> Result<Vec<(IpAddr, u8)>, NetlinkError> {
        let of_link = |(of, ip, prefix)| (of == index).then_some((ip, prefix));
        Ok(self.every_address()?.into_iter().filter_map(of_link).collect())
    }

    /// Every address here, with the index of its interface before and its prefix after it.
    pub(crate) fn every_address(&self) -> Result<Vec<(u32, IpAddr, u8)>, NetlinkError> {
        let ask = Message::new(GETADDR, REQUEST | DUMP, &[0; 8]);
        let found = self.socket.ask("list addresses", ask)?;
        Ok(found.iter().filter_map(address_of).collect())
    }

    /// Adds the default route through a gateway; one that is there already is a success.
    pub(crate) fn add_default(&self, index: u32, gateway: IpAddr) -> Result<(), NetlinkError> {
        let table = u8::try_from(TABLE_MAIN).unwrap_or(u8::MAX);
        let fixed = [family(gateway), 0, 0, 0, table, PROTO_STATIC, 0, TYPE_UNICAST, 0, 0, 0, 0];
        let add = Message::new(NEWROUTE, REQUEST | ACK | CREATE | EXCL, &fixed)
            .attr(RTA_GATEWAY, &octets(gateway))
            .u32(RTA_OIF, index);
        match self.socket.ack(&format!("add the default route through {gateway}"), add) {
            Err(e) if e.is_existing() => Ok(()),
            done => done,
        }
    }

    /// The unicast routes of the main table, default routes included.
    pub(crate) fn routes(&self, ipv4: bool) -> Result<Vec<Hop>, NetlinkError> {
        let mut fixed = [0; 12];
        fixed[0] = if ipv4 { AF_INET } else { AF_INET6 };
        let found = self.socket.ask("list routes", Message::new(GETROUTE, REQUEST | DUMP, &fixed))?;
        Ok(found.iter().filter_map(hop_of).collect())
    }
}

/// `struct ifinfomsg`: flags are both the value and the mask of what changes.
fn ifinfo(index: u32, flags: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { AF_INET } else { AF_INET6 }
}

/// The bytes of an address in network order.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// An address from its bytes.
pub(crate) fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)));
    let v6 = || Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)));
    v4().or_else(v6)
}

fn link_of(reply: &Reply) -> Option<Link> {
    if reply.kind != NEWLINK {
        return None;
    }
    let found = attrs(reply.body.get(16..)?);
    let kind = found.find(IFLA_LINKINFO).and_then(|info| attrs(info).find(INFO_KIND)).map(text);
    Some(Link {
        index: u32_at(&reply.body, 4)?,
        kind: kind.unwrap_or_default(),
        name: found.find(IFLA_IFNAME).map(text).unwrap_or_default(),
        alias: found.find(IFLA_IFALIAS).map(text).unwrap_or_default(),
        mtu: found.find(IFLA_MTU).and_then(|m| u32_at(m, 0)),
        master: found.find(IFLA_MASTER).and_then(|m| u32_at(m, 0)),
        mac: found.find(IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()),
        up: u32_at(&reply.body, 8)? & IFF_UP != 0,
    })
}

fn address_of(reply: &Reply) -> Option<(u32, IpAddr, u8)> {
    if reply.kind != NEWADDR {
        return None;
    }
    let found = attrs(reply.body.get(8..)?);
    let ip = found.find(IFA_LOCAL).or_else(|| found.find(IFA_ADDRESS)).and_then(ip_of)?;
    Some((u32_at(&reply.body, 4)?, ip, *reply.body.get(1)?))
}

fn hop_of(reply: &Reply) -> Option<Hop> {
    let body = &reply.body;
    if reply.kind != NEWROUTE || *body.get(7)? != TYPE_UNICAST {
        return None;
    }
    let found = attrs(body.get(12..)?);
    let table = found.find(RTA_TABLE).and_then(|t| u32_at(t, 0)).unwrap_or(u32::from(*body.get(4)?));
    if table != TABLE_MAIN {
        return None;
    }
    let any = if *body.first()? == AF_INET { octets(Ipv4Addr::UNSPECIFIED.into()) } else { vec![0; 16] };
    let to = ip_of(found.find(RTA_DST).unwrap_or(&any))?;
    Some(Hop {
        to: Subnet::containing(to, *body.get(1)?),
        through: found.find(RTA_OIF).and_then(|i| u32_at(i, 0)),
    })
}
