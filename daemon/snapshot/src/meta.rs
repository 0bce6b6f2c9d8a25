//! The notes a layer keeps beside its tree.

use serde::{Deserialize, Serialize};

/// Notes of one layer, in `layer.json` beside `fs/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayerMeta {
    /// Form of these notes.
    pub version: u32,
    /// Attributes of `/`, when the layer has an entry for it. The topmost layer that has one decides: overlay takes
    /// a merged root's attributes from the writable tree, so that they must be copied there.
    pub root: Option<RootAttributes>,
    /// Whether the layer hides everything below it. Overlay ignores the opaque mark on a root, so that the plan
    /// leaves the lower layers out.
    pub opaque_root: bool,
}

/// Mode, owner and time of a root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootAttributes {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time, seconds.
    pub mtime: i64,
    /// Modification time, nanoseconds.
    pub mtime_nsec: u32,
}

impl Default for RootAttributes {
    fn default() -> Self {
        Self { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nsec: 0 }
    }
}
