//! Space that images and containers take.

use crate::app::App;
use crate::blocking::Room;
use crate::figure::Figure;
use berth_core::{Result, Timestamp};
use berth_snapshot::LayerIndex;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A walk over all writable trees is kept for this long.
const FRESH: Duration = Duration::from_secs(10);
/// The first walk is waited for no longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes and inodes at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// When they were measured.
    pub at: Timestamp,
    /// Bytes on disk.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Used space of the one file system that holds both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsInfo {
    /// The directory by which the caller finds the file system.
    pub directory: String,
    /// Layers.
    pub images: Used,
    /// Writable trees of containers; none before they have been walked over.
    pub containers: Option<Used>,
}

/// The last walk over writable trees.
pub type Cache = Figure<Used>;

/// Adds up the records of layers. Writable trees are walked over behind the caller's back, one walk at a time.
///
/// # Errors
/// The store cannot be read.
pub async fn fs_info(app: &App) -> Result<FsInfo> {
    let (store, root) = (app.store.clone(), app.paths.root.clone());
    let images = app.blocking.run_in(Room::Look, "add up layers", move || -> Result<Used> {
        Ok(layers(&root.join("layers"), &store.layers()?))
    });
    let walk = || {
        let (blocking, trees) = (app.blocking.clone(), app.paths.root.join("containers"));
        async move {
            let walked = blocking.run_in(Room::Walk, "measure writable trees", move || walk(&trees));
            walked.await.ok()
        }
    };
    let (images, containers) = tokio::join!(images, app.usage.get(FRESH, PATIENCE, walk));
    Ok(FsInfo { directory: app.paths.root.to_string_lossy().into_owned(), images: images??, containers })
}

/// Layers never change, so their records know what they take; the directory that holds them counts too.
fn layers(directory: &Path, records: &[berth_snapshot::LayerRecord]) -> Used {
    let own = std::fs::metadata(directory).map_or(0, |found| found.blocks().saturating_mul(512));
    let bytes: u64 = records.iter().map(|record| record.bytes).sum();
    let inodes: u64 = records.iter().map(|record| record.inodes).sum();
    Used { at: Timestamp::now(), bytes: own + bytes, inodes: 1 + inodes }
}

fn walk(path: &Path) -> Used {
    // Trees come and go during the walk; what cannot be read counts as gone.
    let usage = berth_snapshot::usage::of(path).unwrap_or_default();
    Used { at: Timestamp::now(), bytes: usage.bytes, inodes: usage.inodes }
}
