//! Config, manifest and index around layers.

use super::digest::sha256;
use super::layer::Layer;
use super::media;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Some bytes with their type and digest.
#[derive(Clone, Debug)]
pub struct Blob {
    /// Media type.
    pub media: String,
    /// `sha256:…` of the bytes.
    pub digest: String,
    /// The bytes.
    pub bytes: Bytes,
}

impl Blob {
    /// A blob of some bytes.
    pub fn new(media: &str, bytes: Vec<u8>) -> Self {
        Self { media: media.to_owned(), digest: sha256(&bytes), bytes: bytes.into() }
    }

    /// How a manifest points at it.
    pub fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media, "digest": self.digest, "size": self.bytes.len() })
    }
}

/// A finished image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its manifest.
    pub manifest: Blob,
    /// Config and layers.
    pub blobs: Vec<Blob>,
    /// Digest of the config: the image's id.
    pub id: String,
    /// `os/architecture` as an index says it.
    pub platform: (String, String),
}

/// An image being put together.
#[derive(Clone, Debug)]
pub struct ImageBuilder {
    layers: Vec<Layer>,
    config: Map<String, Value>,
    platform: (String, String),
}

impl Default for ImageBuilder {
    fn default() -> Self {
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let config = Map::from_iter([("Env".to_owned(), json!([path]))]);
        Self { layers: Vec::new(), config, platform: ("linux".into(), "amd64".into()) }
    }
}

impl ImageBuilder {
    /// An image with nothing but a PATH, for linux/amd64.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a layer on top.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Sets a key of the runtime configuration, such as `Cmd`, `User`, `WorkingDir`.
    #[must_use]
    pub fn config(mut self, key: &str, value: Value) -> Self {
        self.config.insert(key.to_owned(), value);
        self
    }

    /// For another architecture.
    #[must_use]
    pub fn architecture(mut self, architecture: &str) -> Self {
        architecture.clone_into(&mut self.platform.1);
        self
    }

    /// Puts it together.
    pub fn build(&self) -> Image {
        let built: Vec<(Blob, String)> = self.layers.iter().map(Layer::build).collect();
        let diff_ids: Vec<&String> = built.iter().map(|(_, diff_id)| diff_id).collect();
        let config = json!({
            "architecture": self.platform.1, "os": self.platform.0, "created": "2026-01-01T00:00:00Z",
            "config": self.config, "rootfs": { "type": "layers", "diff_ids": diff_ids },
            "history": [{ "created": "2026-01-01T00:00:00Z", "created_by": "berth-e2e" }],
        });
        let config = Blob::new(media::CONFIG, config.to_string().into_bytes());
        let layers: Vec<Blob> = built.into_iter().map(|(blob, _)| blob).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": media::MANIFEST, "config": config.descriptor(),
            "layers": layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
        });
        let manifest = Blob::new(media::MANIFEST, manifest.to_string().into_bytes());
        let id = config.digest.clone();
        let blobs = std::iter::once(config).chain(layers).collect();
        Image { manifest, blobs, id, platform: self.platform.clone() }
    }
}

/// An index over some images.
pub fn index(images: &[&Image]) -> Blob {
    let manifests: Vec<Value> = images.iter().map(|image| indexed(image)).collect();
    let index = json!({ "schemaVersion": 2, "mediaType": media::INDEX, "manifests": manifests });
    Blob::new(media::INDEX, index.to_string().into_bytes())
}

fn indexed(image: &Image) -> Value {
    let (os, architecture) = &image.platform;
    let mut descriptor = image.manifest.descriptor();
    descriptor["platform"] = json!({ "os": os, "architecture": architecture });
    descriptor
}
