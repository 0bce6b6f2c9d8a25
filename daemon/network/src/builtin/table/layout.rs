//! The chains, maps and rules of a bridge's table.
//!
//! ```text
//! guard        what pods send to 127.0.0.0/8 is dropped: route_localnet on the bridge must not open loopback
//! prerouting   what is addressed to this node goes through the port maps
//! output       the same for connections of the node itself, 127.0.0.1 included
//! ports        first the mappings bound to one address, then those bound to all
//! postrouting  hairpin (pod to pod by a host port), 127.0.0.1 to pod, and masquerading
//! ```

use super::ports::{MAPS, Map};
use super::{TABLE_USERDATA, interface};
use crate::netlink::message::{CREATE, Message};
use crate::netlink::nft::{Batch, INET, Verb};
use crate::netlink::route::octets;
use crate::netlink::rule::{Ct, Header, Meta, Rule, Verdict};
use crate::settings::BuiltinSettings;
use crate::subnet::Subnet;

pub(super) const IPV4: u8 = 2;
pub(super) const IPV6: u8 = 10;

const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_TYPE: u16 = 7;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
/// Connection status: its destination was changed.
const STATUS_DNAT: u32 = 1 << 5;

/// A chain that the kernel calls: name, type, hook number, priority.
const HOOKED: [(&str, &str, u32, i32); 4] = [
    ("guard", "filter", 0, -300),
    ("prerouting", "nat", 0, -100),
    ("output", "nat", 3, -100),
    ("postrouting", "nat", 4, 100),
];

/// Removes the table whether or not it is there (it is made first), leaving room for a new one.
pub(super) fn replace(batch: &mut Batch, table: &str) {
    batch.push("make the table", Verb::NewTable, INET, CREATE, |m| m.text(1, table));
    remove(batch, table);
}

/// Removes the table.
pub(super) fn remove(batch: &mut Batch, table: &str) {
    batch.push("remove the table", Verb::DelTable, INET, 0, |m| m.text(1, table));
}

/// Makes table, maps, chains and rules.
pub(super) fn write(batch: &mut Batch, settings: &BuiltinSettings, stamp: &[u8]) {
    let table = super::name(&settings.bridge);
    batch.push("make the table", Verb::NewTable, INET, CREATE, |m| {
        let m = m.text(1, &table);
        if stamp.is_empty() { m } else { m.attr(TABLE_USERDATA, stamp) }
    });
    let families = |map: &&Map| settings.subnets.iter().any(|s| s.is_ipv4() == map.ipv4);
    for map in MAPS.iter().filter(families) {
        map.create(batch, &table);
    }
    for hooked in HOOKED {
        chain(batch, &table, hooked.0, Some(hooked));
    }
    chain(batch, &table, "ports", None);
    for (chain, rule) in rules(settings) {
        batch.push(
            format!("add a rule to {chain}"),
            Verb::NewRule,
            INET,
            CREATE | crate::netlink::message::APPEND,
            |m| rule.write(RULE_EXPRESSIONS, m.text(RULE_TABLE, &table).text(RULE_CHAIN, chain)),
        );
    }
}

fn chain(batch: &mut Batch, table: &str, name: &str, hook: Option<(&str, &str, u32, i32)>) {
    batch.push(format!("make chain {name}"), Verb::NewChain, INET, CREATE, |m| {
        let m = m.text(CHAIN_TABLE, table).text(CHAIN_NAME, name);
        let Some((_, kind, number, priority)) = hook else { return m };
        let hook = |m: Message| m.be32(1, number).attr(2, &priority.to_be_bytes());
        m.nest(CHAIN_HOOK, hook).text(CHAIN_TYPE, kind)
    });
}

fn rules(settings: &BuiltinSettings) -> Vec<(&'static str, Rule)> {
    let bridge = interface(&settings.bridge);
    let jump = || Rule::default().if_local().verdict(&Verdict::Jump("ports"));
    let mut rules = vec![("prerouting", jump())];
    if settings.subnets.iter().any(|s| !s.is_ipv4()) {
        // There is no route_localnet for IPv6: refused is better than lost.
        let loopback = address(Rule::default(), false, false)
            .compare(true, &octets(std::net::Ipv6Addr::LOCALHOST.into()));
        rules.push(("output", loopback.verdict(&Verdict::Return)));
    }
    rules.push(("output", jump()));
    for subnet in &settings.subnets {
        let v4 = subnet.is_ipv4();
        for map in MAPS.iter().filter(|map| map.ipv4 == v4) {
            rules.push(("ports", map.rule()));
        }
        if v4 {
            let guard = Rule::default().meta(Meta::IifName, 0).compare(true, &bridge);
            rules.push(("guard", localnet(guard, false).verdict(&Verdict::Drop)));
            let local = Rule::default().meta(Meta::OifName, 0).compare(true, &bridge);
            rules.push(("postrouting", localnet(local, true).masquerade()));
        }
        let hairpin = within(within(Rule::default(), subnet, true), subnet, false).ct(Ct::Status);
        let hairpin = hairpin.mask(&STATUS_DNAT.to_ne_bytes()).compare(false, &[0; 4]);
        rules.push(("postrouting", hairpin.masquerade()));
        if settings.masquerade {
            let out = within(Rule::default().meta(Meta::OifName, 0).compare(false, &bridge), subnet, true);
            rules.push(("postrouting", out.masquerade()));
        }
    }
    rules
}

/// Loads the source or destination address of a packet of one family.
fn address(rule: Rule, v4: bool, source: bool) -> Rule {
    let family = if v4 { IPV4 } else { IPV6 };
    let (offset, length) = match (v4, source) {
        (true, true) => (12, 4),
        (true, false) => (16, 4),
        (false, true) => (8, 16),
        (false, false) => (24, 16),
    };
    rule.meta(Meta::NfProto, 0).compare(true, &[family]).payload(Header::Network, offset, length, 0)
}

fn within(rule: Rule, subnet: &Subnet, source: bool) -> Rule {
    let base = octets(subnet.base());
    let mask = (0..base.len()).map(|i| {
        let bits = usize::from(subnet.prefix()).saturating_sub(i * 8).min(8);
        // 0 to 8 leading ones.
        u8::try_from((0xff00_u32 >> bits) & 0xff).unwrap_or_default()
    });
    let mask: Vec<u8> = mask.collect();
    address(rule, subnet.is_ipv4(), source).mask(&mask).compare(true, &base)
}

fn localnet(rule: Rule, source: bool) -> Rule {
    within(rule, &Subnet::containing(std::net::Ipv4Addr::LOCALHOST.into(), 8), source)
}
