//! Space that images and containers take.

use crate::app::App;
use berth_core::{Result, Timestamp};
use berth_snapshot::LayerIndex;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A walk over all writable trees is kept for this long.
const FRESH: Duration = Duration::from_secs(10);

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
    /// Writable trees of containers.
    pub containers: Used,
}

/// The last walk.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Option<Used>>);

/// Measures, or answers from the last walk if that is fresh.
///
/// # Errors
/// The store cannot be read.
pub async fn fs_info(app: &App) -> Result<FsInfo> {
    let last = *app.usage.0.lock().unwrap_or_else(PoisonError::into_inner);
    let (store, root) = (app.store.clone(), app.paths.root.clone());
    let known = last.filter(|used| used.at.age() < FRESH);
    let measured = app.blocking.run("measure used space", move || -> Result<(Used, Used)> {
        let containers = known.unwrap_or_else(|| walk(&root.join("containers")));
        Ok((layers(&root.join("layers"), &store.layers()?), containers))
    });
    let (images, containers) = measured.await??;
    *app.usage.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(containers);
    Ok(FsInfo { directory: app.paths.root.to_string_lossy().into_owned(), images, containers })
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
