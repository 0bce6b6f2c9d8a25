//! What must be mounted for a container's root file system.

use crate::error::{Error, Result};
use crate::key::LayerKey;
use crate::layers::Snapshots;
use crate::meta::RootAttributes;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::PathBuf;

/// The kernel's own limit of lower layers.
pub const MAX_LAYERS: usize = 500;

/// An overlay mount that is still to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayPlan {
    /// Lower directories, topmost first.
    pub lower: Vec<PathBuf>,
    /// The writable tree.
    pub upper: PathBuf,
    /// Overlay's work directory, on the same file system.
    pub work: PathBuf,
    /// Further mount options.
    pub options: Vec<String>,
}

/// The lower directories of `layers` (bottom first) and the attributes their root has. A layer that occurs twice (two
/// equal empty ones, say) is taken once, at its topmost place: overlay refuses the same directory twice, and since a
/// self-contained layer deletes nothing, it shows all it has from there.
pub(crate) fn lowers(snapshots: &Snapshots, layers: &[LayerKey]) -> Result<(Vec<PathBuf>, RootAttributes)> {
    let mut lower = Vec::with_capacity(layers.len());
    let mut root = None;
    let mut seen = HashSet::new();
    for key in layers.iter().rev() {
        if !seen.insert(key) {
            continue;
        }
        let meta = snapshots.layer_meta(key)?;
        root = root.or(meta.root);
        lower.push(snapshots.layer_path(key));
        if meta.opaque_root {
            break;
        }
    }
    if lower.len() > MAX_LAYERS {
        return Err(Error::TooManyLayers(lower.len()));
    }
    Ok((lower, root.unwrap_or_default()))
}
