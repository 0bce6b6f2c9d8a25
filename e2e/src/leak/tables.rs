//! nft tables of a node: the built-in network's carries the name of its bridge.

use super::{Owned, quietly};

/// The table `inet berth_<bridge>`, if it is there.
pub(super) fn find(owned: &Owned) -> Vec<String> {
    let wanted = format!("berth_{}", owned.bridge);
    let listed = quietly("nft", &["list", "tables", "inet"]).unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.split_whitespace().nth(2));
    names.filter(|name| *name == wanted).map(str::to_owned).collect()
}

/// Deletes it.
pub(super) fn remove(owned: &Owned) {
    for table in find(owned) {
        quietly("nft", &["delete", "table", "inet", &table]);
    }
}
