//! Forgetting connections that still lead to a pod that has gone, or past one that has come.
//!
//! A datagram flow keeps its translation for as long as it is busy: without this, a client that keeps sending would
//! never notice that its host port leads to another pod now.

use std::net::IpAddr;

use rustix::net::netlink::NETFILTER;

use super::NetlinkError;
use super::message::{ACK, Attrs, DUMP, Message, REQUEST, Reply, attrs};
use super::route::{ip_of, octets};
use super::socket::Socket;

const SUBSYSTEM: u16 = 1;
const GET: u16 = SUBSYSTEM << 8 | 1;
const DELETE: u16 = SUBSYSTEM << 8 | 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const CTA_FILTER: u16 = 25;
const TUPLE_IP: u16 = 1;
const TUPLE_PROTO: u16 = 2;
const FILTER_ORIG: u16 = 1;
const FILTER_REPLY: u16 = 2;
const F_IP_SRC: u32 = 1;
const F_PROTO_NUM: u32 = 1 << 3;
const F_PROTO_DST: u32 = 1 << 5;

/// A conversation about the connections of the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Some(NETFILTER))? })
    }

    /// Forgets every connection that was led to this pod by a change of its destination.
    pub(crate) fn forget_pod(&self, pod: IpAddr) -> Result<usize, NetlinkError> {
        let source = if pod.is_ipv4() { 1 } else { 3 };
        let ask = get(pod.is_ipv4())
            .nest(CTA_TUPLE_REPLY, |m| m.nest(TUPLE_IP, |m| m.attr(source, &octets(pod))))
            .nest(CTA_FILTER, |m| m.u32(FILTER_ORIG, 0).u32(FILTER_REPLY, F_IP_SRC));
        self.forget(ask, |orig, reply| reply.source == Some(pod) && orig.destination != Some(pod))
    }

    /// Forgets the flows of a protocol that went to a port of this node before it was mapped.
    pub(crate) fn forget_port(
        &self,
        ipv4: bool,
        protocol: u8,
        port: u16,
        local: &dyn Fn(IpAddr) -> bool,
    ) -> Result<usize, NetlinkError> {
        let fill = |m: Message| m.attr(1, &[protocol]).attr(3, &port.to_be_bytes());
        let ask = get(ipv4)
            .nest(CTA_TUPLE_ORIG, |m| m.nest(TUPLE_PROTO, fill))
            .nest(CTA_FILTER, |m| m.u32(FILTER_ORIG, F_PROTO_NUM | F_PROTO_DST).u32(FILTER_REPLY, 0));
        self.forget(ask, |orig, _| {
            orig.protocol == Some(protocol) && orig.port == Some(port) && orig.destination.is_some_and(local)
        })
    }

    /// Kernels that do not know the filter list everything, so each answer is looked at again.
    fn forget(&self, ask: Message, which: impl Fn(&Tuple, &Tuple) -> bool) -> Result<usize, NetlinkError> {
        let mut gone = 0;
        for reply in self.socket.ask("list connections", ask)? {
            let all = body(&reply);
            let (Some(orig), Some(back)) = (all.find(CTA_TUPLE_ORIG), all.find(CTA_TUPLE_REPLY)) else {
                continue;
            };
            if !which(&tuple(orig), &tuple(back)) {
                continue;
            }
            match self.socket.ack("forget a connection", delete(&reply, orig, all)) {
                Err(e) if !e.is_missing() => return Err(e),
                _ => gone += 1,
            }
        }
        Ok(gone)
    }
}

fn get(ipv4: bool) -> Message {
    Message::new(GET, REQUEST | DUMP, &[if ipv4 { 2 } else { 10 }, 0, 0, 0])
}

/// Names the connection by its first tuple and its id, so that a successor with the same tuple is spared.
fn delete(reply: &Reply, orig: &[u8], all: Attrs<'_>) -> Message {
    let family = reply.body.first().copied().unwrap_or_default();
    let mut message = Message::new(DELETE, REQUEST | ACK, &[family, 0, 0, 0]);
    message = message.nest(CTA_TUPLE_ORIG, |m| m.raw(orig));
    for kind in [CTA_ZONE, CTA_ID] {
        if let Some(value) = all.find(kind) {
            message = message.attr(kind, value);
        }
    }
    message
}

fn body(reply: &Reply) -> Attrs<'_> {
    attrs(reply.body.get(4..).unwrap_or_default())
}

/// One direction of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tuple {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    protocol: Option<u8>,
    port: Option<u16>,
}

fn tuple(bytes: &[u8]) -> Tuple {
    let ip = attrs(bytes).find(TUPLE_IP).map(attrs);
    let proto = attrs(bytes).find(TUPLE_PROTO).map(attrs);
    let address = |v4, v6| ip.and_then(|ip| ip.find(v4).or_else(|| ip.find(v6))).and_then(ip_of);
    Tuple {
        source: address(1, 3),
        destination: address(2, 4),
        protocol: proto.and_then(|p| p.find(1)).and_then(|p| p.first().copied()),
        port: proto.and_then(|p| p.find(3)).and_then(|p| p.try_into().ok()).map(u16::from_be_bytes),
    }
}
