//! The one nftables table of a bridge: its rules never change, host ports are elements of its maps.

mod layout;
mod ports;

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::BuiltinError;
use crate::netlink::message::attrs;
use crate::netlink::nft::{Batch, INET, Nft, Verb, body, message};
use crate::settings::BuiltinSettings;

pub(super) use ports::Ports;

const TABLE_NAME: u16 = 1;
const TABLE_USERDATA: u16 = 6;

/// Name of a bridge's table: `berth_` and the bridge, with what nft's language does not take spelt in hex.
pub(super) fn name(bridge: &str) -> String {
    let spell = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("_{other:02x}"),
    };
    format!("berth_{}", bridge.bytes().map(spell).collect::<String>())
}

/// The layout that the table has now; none when there is no table.
pub(super) fn stamp(nft: &Nft, bridge: &str) -> Result<Option<Vec<u8>>, BuiltinError> {
    let ask = message(Verb::GetTable, INET, crate::netlink::message::ACK).text(TABLE_NAME, &name(bridge));
    match nft.ask("look up the nftables table", ask) {
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e.into()),
        Ok(found) => {
            let stamp = found.first().and_then(|r| attrs(body(r)).find(TABLE_USERDATA));
            Ok(Some(stamp.unwrap_or_default().to_vec()))
        }
    }
}

/// The layout that these settings ask for.
pub(super) fn wanted_stamp(settings: &BuiltinSettings) -> Vec<u8> {
    let mut batch = Batch::default();
    layout::write(&mut batch, settings, &[]);
    comment(&format!("berth {:016x}", batch.digest()))
}

/// A comment as nft writes it: type 0, length with the NUL, text. So people see it in a listing.
pub(super) fn comment(text: &str) -> Vec<u8> {
    let mut bytes = vec![0, u8::try_from(text.len() + 1).unwrap_or_default()];
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    bytes
}

/// An interface name as the kernel compares it: 16 bytes.
pub(super) fn interface(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// Replaces the table as a whole, with these ports open: one transaction, so no packet meets half a table.
pub(super) fn rebuild(nft: &Nft, settings: &BuiltinSettings, ports: Ports) -> Result<(), BuiltinError> {
    let table = name(&settings.bridge);
    let mut batch = Batch::default();
    layout::replace(&mut batch, &table);
    layout::write(&mut batch, settings, &wanted_stamp(settings));
    ports::add(&mut batch, &table, &ports.only(settings));
    Ok(nft.commit(&batch)?)
}

/// Opens ports; all of them or none.
pub(super) fn add_ports(nft: &Nft, bridge: &str, ports: &Ports) -> Result<(), BuiltinError> {
    let mut batch = Batch::default();
    ports::add(&mut batch, &name(bridge), ports);
    nft.commit(&batch).map_err(|source| match source.errno() {
        // The kernel says EEXIST when the same port leads to another pod.
        Some(_) if source.is_existing() => BuiltinError::PortTaken { port: ports.to_string(), source },
        _ => source.into(),
    })
}

/// Every port that is open now.
pub(super) fn open_ports(nft: &Nft, bridge: &str) -> Result<Ports, BuiltinError> {
    Ok(ports::list(nft, &name(bridge))?)
}

/// Closes every port that leads to one of these addresses.
pub(super) fn close_ports(nft: &Nft, bridge: &str, pods: &BTreeSet<IpAddr>) -> Result<(), BuiltinError> {
    let table = name(bridge);
    let gone = ports::list(nft, &table)?.leading_to(pods);
    let mut batch = Batch::default();
    ports::remove(&mut batch, &table, &gone);
    match nft.commit(&batch) {
        Err(e) if !e.is_missing() => Err(e.into()),
        _ => Ok(()),
    }
}

/// Removes the table; success when there is none.
pub(super) fn remove(nft: &Nft, bridge: &str) -> Result<(), BuiltinError> {
    let mut batch = Batch::default();
    layout::remove(&mut batch, &name(bridge));
    match nft.commit(&batch) {
        Err(e) if !e.is_missing() => Err(e.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_nft_and_differ() {
        assert_eq!(name("berth0"), "berth_berth0");
        assert_ne!(name("br-1"), name("br_1"));
        assert!(name("br.é").bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()));
    }

    #[test]
    fn the_stamp_follows_what_the_rules_say() {
        let settings = BuiltinSettings::default();
        let other = BuiltinSettings { masquerade: false, ..settings.clone() };
        assert_eq!(wanted_stamp(&settings), wanted_stamp(&settings.clone()));
        assert_ne!(wanted_stamp(&settings), wanted_stamp(&other));
    }
}
