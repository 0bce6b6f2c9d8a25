//! Mounts of a node in the host's table.

use super::{Owned, netns, quietly};
use std::fs;
use std::path::PathBuf;

/// Mount points below the node's folder, or of its namespaces, the last mounted first.
pub(super) fn find(owned: &Owned) -> Vec<PathBuf> {
    let Ok(table) = fs::read_to_string("/proc/self/mountinfo") else { return Vec::new() };
    let points = table.lines().rev().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let pins = netns::names(owned);
    points.filter(|p| p.starts_with(&owned.dir) || pins.iter().any(|pin| p == pin)).collect()
}

/// Lazily unmounts them.
pub(super) fn unmount(owned: &Owned) {
    for point in find(owned) {
        quietly("umount", &["-l", &point.to_string_lossy()]);
    }
}
