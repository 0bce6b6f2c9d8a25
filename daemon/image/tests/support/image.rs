//! Images made in memory and put into a registry.

use crate::registry::Registry;
use berth_image::Digest;
use berth_image::registry::manifest::digest_of;
use berth_snapshot::digest::Algorithm;
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use std::io::Write;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const GZIP_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    digest_of(Algorithm::Sha256, bytes)
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Layers of an image, and which hash its digests use.
pub(crate) struct Image {
    pub(crate) tars: Vec<Vec<u8>>,
    pub(crate) algorithm: Algorithm,
    pub(crate) architecture: String,
}

/// What was put where.
#[derive(Clone)]
pub(crate) struct Pushed {
    pub(crate) manifest: Digest,
    pub(crate) config: Digest,
    pub(crate) layers: Vec<Digest>,
}

impl Image {
    pub(crate) fn new(tars: Vec<Vec<u8>>) -> Self {
        let architecture = berth_image::Platform::host().architecture;
        Self { tars, algorithm: Algorithm::Sha256, architecture }
    }

    pub(crate) fn push(&self, registry: &Registry, name: &str, tag: &str) -> Pushed {
        let digest = |bytes: &[u8]| digest_of(self.algorithm, bytes);
        let diff_ids: Vec<String> = self.tars.iter().map(|tar| digest(tar).to_string()).collect();
        let config = json!({
            "os": "linux",
            "architecture": self.architecture,
            "config": {"Env": ["A=1"], "Cmd": ["/bin/x"], "User": "33:10", "Labels": {"k": "v"}},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = serde_json::to_vec(&config).unwrap();
        let put = |bytes: &[u8]| {
            let name = format!("/v2/{name}/blobs/{}", digest(bytes));
            registry.put(&name, "application/octet-stream", bytes.to_vec());
            digest(bytes)
        };
        let blobs: Vec<Vec<u8>> = self.tars.iter().map(|tar| gzip(tar)).collect();
        let layers: Vec<Digest> = blobs.iter().map(|blob| put(blob)).collect();
        let descriptors: Vec<_> = blobs
            .iter()
            .zip(&layers)
            .map(|(blob, digest)| json!({"mediaType": GZIP_LAYER, "digest": digest, "size": blob.len()}))
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": put(&config), "size": config.len()},
            "layers": descriptors,
        });
        let manifest = serde_json::to_vec(&manifest).unwrap();
        for part in [tag.to_owned(), sha256(&manifest).to_string(), digest(&manifest).to_string()] {
            registry.put(&format!("/v2/{name}/manifests/{part}"), MANIFEST, manifest.clone());
        }
        Pushed { manifest: digest(&manifest), config: digest(&config), layers }
    }
}
