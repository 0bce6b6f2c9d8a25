//! What a pull tells while it runs, for a display or a metric.

use berth_snapshot::Digest;
use std::sync::Arc;

/// One step of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The reference points to this digest, found at this endpoint.
    Resolved {
        /// Digest of the index or manifest.
        digest: Digest,
        /// Scheme, host and port that answered.
        endpoint: String,
    },
    /// The layers are known; the numbers of the events below are positions in this list, bottom first.
    Layers(Vec<LayerInfo>),
    /// The layer is here already.
    Present {
        /// Position of the layer.
        layer: usize,
    },
    /// So much of the layer's compressed bytes has arrived.
    Fetched {
        /// Position of the layer.
        layer: usize,
        /// Bytes so far.
        bytes: u64,
    },
    /// The layer is checked and applied.
    Applied {
        /// Position of the layer.
        layer: usize,
        /// Bytes of the uncompressed tar.
        bytes: u64,
    },
    /// A step is tried again, or at another endpoint.
    Retry {
        /// Position of the layer, if it is one.
        layer: Option<usize>,
        /// What failed, without secrets.
        reason: String,
    },
    /// All layers are in place; the file system is being synced.
    Syncing,
}

/// A layer as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    /// Digest of the compressed layer.
    pub digest: Digest,
    /// Its compressed size.
    pub size: u64,
}

/// Where events go. Called from async code: it must not block.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(Event) + Send + Sync>>);

impl Progress {
    /// Events go to `sink`.
    pub fn new(sink: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Nobody listens.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    pub(crate) fn tell(&self, event: Event) {
        if let Some(sink) = &self.0 {
            sink(event);
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(sink)" } else { "Progress(none)" })
    }
}
