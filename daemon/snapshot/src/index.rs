//! What the layer store needs from whoever keeps the records. Calls block; each is one transaction.

use crate::digest::Digest;
use crate::key::LayerKey;
use berth_core::error::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One layer on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Its directory below `layers/`.
    pub key: LayerKey,
    /// Digest of the uncompressed tar it was made from.
    pub diff_id: Digest,
    /// Bytes it takes on disk.
    pub bytes: u64,
    /// Inodes it takes.
    pub inodes: u64,
    /// Whether it is known to have reached the disk. A layer that is not must be dropped after an unclean end.
    pub synced: bool,
}

/// The records of layers. Who refers to a layer (images and containers) is known to the implementation alone.
pub trait LayerIndex: Send + Sync {
    /// The record of one layer.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn layer(&self, key: &LayerKey) -> Result<Option<LayerRecord>>;

    /// Adds or replaces a record.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put_layer(&self, record: &LayerRecord) -> Result<()>;

    /// Every record, sorted by key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn layers(&self) -> Result<Vec<LayerRecord>>;

    /// Removes these records, whether or not something refers to them. Missing ones are no error.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn remove_layers(&self, keys: &[LayerKey]) -> Result<()>;

    /// Removes, in one transaction, every record to which neither an image nor a container refers and which is not
    /// in `keep` (layers of pulls under way); returns their keys. Their directories are removed afterwards.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    fn remove_unreferenced_layers(&self, keep: &BTreeSet<LayerKey>) -> Result<Vec<LayerKey>>;
}
