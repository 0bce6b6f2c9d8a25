//! Cgroups of a node in every hierarchy: in its pods' cgroups, or anywhere under one of its ids.
//!
//! `/berth-e2e-…/<pod>` itself is what a kubelet makes and removes: it belongs to the test.

use super::Owned;
use crate::node::hierarchies;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories in the pods' cgroups, and directories named by the node's ids.
pub(super) fn find(owned: &Owned) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in hierarchies() {
        walk(&root, owned, &mut found);
    }
    found
}

fn walk(dir: &Path, owned: &Owned, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let above = dir.parent().and_then(Path::file_name);
        let below = above.is_some_and(|parent| *parent == *owned.name);
        if below || owned.knows(&name) {
            found.push(entry.path());
        } else {
            walk(&entry.path(), owned, found);
        }
    }
}

/// Removes them, children first.
pub(super) fn remove(owned: &Owned) {
    for dir in find(owned) {
        crate::node::remove_cgroup(&dir);
    }
}
