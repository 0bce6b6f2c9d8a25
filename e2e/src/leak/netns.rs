//! Pinned network namespaces of a node: `/run/netns/berth-<first 32 of the sandbox id>`.

use super::Owned;
use std::fs;
use std::path::PathBuf;

/// Where pins of the node's sandboxes would be.
pub(super) fn names(owned: &Owned) -> Vec<PathBuf> {
    let short = owned.ids.iter().filter_map(|id| id.get(..32));
    short.map(|id| PathBuf::from(format!("/run/netns/berth-{id}"))).collect()
}

/// Those that are there.
pub(super) fn find(owned: &Owned) -> Vec<PathBuf> {
    names(owned).into_iter().filter(|pin| pin.symlink_metadata().is_ok()).collect()
}

/// Removes the files; what was mounted on them is gone before.
pub(super) fn remove(owned: &Owned) {
    for pin in find(owned) {
        let _ = fs::remove_file(pin);
    }
}
