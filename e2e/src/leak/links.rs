//! Network links of a node: its bridge, and the host's ends of its pods' pairs.

use super::{Owned, quietly};
use std::fs;
use std::path::Path;

/// The bridge, what is plugged into it, and `veth<first 11 of a sandbox id>`.
pub(super) fn find(owned: &Owned) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mine = |name: &String| {
        let pair = name.strip_prefix("veth").filter(|short| short.len() == 11);
        *name == owned.bridge
            || plugged(name, &owned.bridge)
            || pair.is_some_and(|short| owned.ids.iter().any(|id| id.starts_with(short)))
    };
    names.filter(mine).collect()
}

fn plugged(link: &str, bridge: &str) -> bool {
    let master = fs::read_link(Path::new("/sys/class/net").join(link).join("master"));
    master.is_ok_and(|master| master.file_name().is_some_and(|name| name == bridge))
}

/// Deletes them.
pub(super) fn remove(owned: &Owned) {
    for link in find(owned) {
        quietly("ip", &["link", "delete", &link]);
    }
}
