//! Firewalls of others that drop what the node forwards, such as Docker's.
//!
//! A packet must be accepted by every chain on its way, so no rule of a table of our own can help: two rules for the
//! bridge go to the head of each such chain, in a form that iptables-nft reads as its own, under a comment by which
//! they are found again. Chains of iptables-legacy cannot be seen from here; there the administrator lets the bridge
//! through by `iptables -I FORWARD -i BRIDGE -j ACCEPT` and the same with `-o`.

use super::BuiltinError;
use super::table::{comment, interface};
use crate::netlink::NetlinkError;
use crate::netlink::message::{CREATE, attrs, text};
use crate::netlink::nft::{Batch, Nft, Verb, body};
use crate::netlink::rule::{Meta, Rule, Verdict};

const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const FORWARD: u32 = 2;
const DROP: u32 = 0;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;
const RULE_EXPRESSIONS: u16 = 4;
const RULE_USERDATA: u16 = 7;
/// Families whose forward hook sees what the bridge routes: inet, ip, ip6.
const FAMILIES: [u8; 3] = [1, 2, 10];

/// A chain of somebody else.
#[derive(Debug)]
struct Foreign {
    family: u8,
    table: String,
    chain: String,
    drops: bool,
}

/// Lets the bridge through every chain that drops by default.
pub(super) fn allow(nft: &Nft, bridge: &str) -> Result<(), BuiltinError> {
    let mark = comment(&format!("berth {bridge}"));
    let mut batch = Batch::default();
    for foreign in forward_chains(nft)?.iter().filter(|f| f.drops) {
        if !marked(nft, foreign, &mark)?.is_empty() {
            continue;
        }
        for side in [Meta::OifName, Meta::IifName] {
            let rule = Rule::default().meta(side, 0).compare(true, &interface(bridge));
            let rule = rule.verdict(&Verdict::Accept);
            batch.push("let the bridge through a firewall", Verb::NewRule, foreign.family, CREATE, |m| {
                let m = m.text(RULE_TABLE, &foreign.table).text(RULE_CHAIN, &foreign.chain);
                rule.write(RULE_EXPRESSIONS, m).attr(RULE_USERDATA, &mark)
            });
        }
    }
    Ok(nft.commit(&batch)?)
}

/// Takes the rules of [`allow`] away again.
pub(super) fn disallow(nft: &Nft, bridge: &str) -> Result<(), BuiltinError> {
    let mark = comment(&format!("berth {bridge}"));
    let mut batch = Batch::default();
    for foreign in &forward_chains(nft)? {
        for handle in marked(nft, foreign, &mark)? {
            batch.push("remove a rule for the bridge", Verb::DelRule, foreign.family, 0, |m| {
                let m = m.text(RULE_TABLE, &foreign.table).text(RULE_CHAIN, &foreign.chain);
                m.attr(RULE_HANDLE, &handle)
            });
        }
    }
    match nft.commit(&batch) {
        Err(e) if !e.is_missing() => Err(e.into()),
        _ => Ok(()),
    }
}

fn forward_chains(nft: &Nft) -> Result<Vec<Foreign>, NetlinkError> {
    let found = nft.list("list nftables chains", Verb::GetChain, 0, |m| m)?;
    Ok(found.iter().filter_map(|reply| foreign(*reply.body.first()?, body(reply))).collect())
}

fn foreign(family: u8, chain: &[u8]) -> Option<Foreign> {
    let all = attrs(chain);
    let number = |value: &[u8]| value.try_into().ok().map(u32::from_be_bytes);
    let hook = attrs(all.find(CHAIN_HOOK)?).find(HOOK_NUMBER).and_then(number)?;
    let filter = all.find(CHAIN_TYPE).map(text)? == "filter";
    (FAMILIES.contains(&family) && hook == FORWARD && filter).then_some(())?;
    Some(Foreign {
        family,
        table: text(all.find(CHAIN_TABLE)?),
        chain: text(all.find(CHAIN_NAME)?),
        drops: all.find(CHAIN_POLICY).and_then(number) == Some(DROP),
    })
}

/// Handles of the rules in a chain that bear our mark.
fn marked(nft: &Nft, foreign: &Foreign, mark: &[u8]) -> Result<Vec<Vec<u8>>, NetlinkError> {
    let found = nft.list("list nftables rules", Verb::GetRule, foreign.family, |m| {
        m.text(RULE_TABLE, &foreign.table).text(RULE_CHAIN, &foreign.chain)
    })?;
    let ours = found.iter().map(|reply| attrs(body(reply))).filter(|rule| {
        // Older kernels ignore the wish for one chain and list all.
        let of_chain = rule.find(RULE_CHAIN).map(text).as_ref() == Some(&foreign.chain)
            && rule.find(RULE_TABLE).map(text).as_ref() == Some(&foreign.table);
        of_chain && rule.find(RULE_USERDATA) == Some(mark)
    });
    Ok(ours.filter_map(|rule| rule.find(RULE_HANDLE)).map(<[u8]>::to_vec).collect())
}
