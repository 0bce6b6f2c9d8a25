//! OCI images made from nothing: layers as tar streams, config, manifest, index, each with its digest.

mod build;
mod digest;
mod layer;
mod tar;

pub use build::{Blob, Image, ImageBuilder, index};
pub use digest::{hex, sha256};
pub use layer::{Compression, Layer};
pub use tar::{Entry, Kind, archive};

/// Media types as OCI writes them.
pub mod media {
    /// An image manifest.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// An image index.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// An image configuration.
    pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// A plain layer; `+gzip` and `+zstd` follow it.
    pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
}
