//! The image configuration: platform, layer digests, and the image's wishes.

use super::error::ErrorKind;
use crate::config::ImageConfig;
use crate::platform::Platform;
use crate::registry::manifest::{Descriptor, Manifest};
use berth_snapshot::Digest;
use berth_snapshot::digest::Algorithm;
use serde::Deserialize;

/// Largest configuration.
pub const MAX_CONFIG: usize = 8 << 20;

/// What a pull needs of an image configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The image's wishes.
    pub config: ImageConfig,
    /// Digests of the uncompressed layers, bottom first.
    pub diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: String,
    #[serde(default)]
    config: Option<ImageConfig>,
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Option<Vec<Digest>>,
}

/// Reads a configuration and holds it against the manifest and this machine.
///
/// # Errors
/// No configuration, another number of layers, or another platform.
pub fn parse(bytes: &[u8], manifest: &Manifest, platform: &Platform) -> Result<Configuration, ErrorKind> {
    let digest = &manifest.config.digest;
    let bad = |why: String| ErrorKind::Config { digest: digest.clone(), why };
    let raw: Raw = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    let found = Platform::new(&raw.os, &raw.architecture, &raw.variant);
    // Old tools left these out; then nothing is known.
    let said = !raw.os.is_empty() && !raw.architecture.is_empty();
    if said
        && platform.fitness(&Platform { variant: String::new(), ..found.clone() }).is_none()
        && platform.fitness(&found).is_none()
    {
        return Err(ErrorKind::Platform { wanted: platform.to_string(), found: found.to_string() });
    }
    let diff_ids = raw.rootfs.diff_ids.unwrap_or_default();
    if diff_ids.len() != manifest.layers.len() {
        let (layers, ids) = (manifest.layers.len(), diff_ids.len());
        return Err(bad(format!("the manifest has {layers} layers, the configuration {ids}")));
    }
    Ok(Configuration { config: raw.config.unwrap_or_default(), diff_ids })
}

/// The chainIDs of the layers: each names a layer together with all below it.
#[must_use]
pub fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::with_capacity(diff_ids.len());
    for diff_id in diff_ids {
        let next = match chain.last() {
            None => diff_id.clone(),
            Some(parent) => {
                let text = format!("{parent} {diff_id}");
                crate::registry::manifest::digest_of(Algorithm::Sha256, text.as_bytes())
            }
        };
        chain.push(next);
    }
    chain
}

/// The layer at one position, with all its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// Position, 0 is the bottom.
    pub position: usize,
    /// The compressed layer.
    pub blob: Descriptor,
    /// Digest of the uncompressed layer.
    pub diff_id: Digest,
    /// Digest of it and all below.
    pub chain_id: Digest,
}

/// The layers of an image.
#[must_use]
pub fn layers(manifest: &Manifest, configuration: &Configuration) -> Vec<LayerSpec> {
    let chain = chain_ids(&configuration.diff_ids);
    let names = configuration.diff_ids.iter().cloned().zip(chain);
    let all = manifest.layers.iter().cloned().zip(names).enumerate();
    all.map(|(position, (blob, (diff_id, chain_id)))| LayerSpec { position, blob, diff_id, chain_id })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_ids_are_those_of_the_specification() {
        let digest = |c: &str| Digest::parse(&format!("sha256:{}", c.repeat(64))).unwrap();
        let chain = chain_ids(&[digest("a"), digest("b"), digest("c")]);
        assert_eq!(chain[0], digest("a"));
        let text = format!("{} {}", digest("a"), digest("b"));
        assert_eq!(chain[1], crate::registry::manifest::digest_of(Algorithm::Sha256, text.as_bytes()));
        assert_ne!(chain[1], chain[2]);
    }
}
