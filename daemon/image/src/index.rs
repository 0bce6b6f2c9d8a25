//! What the puller needs from whoever keeps the records of images. Calls block; each is one transaction.

use crate::config::ImageConfig;
use crate::reference::Reference;
use berth_core::error::Result;
use berth_snapshot::{Digest, LayerKey};
use serde::{Deserialize, Serialize};

/// What a pull brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledImage {
    /// The image's id: the digest of its configuration. Its text (`sha256:…`) is the `image_ref` of the answer.
    pub id: Digest,
    /// `name:tag`, when the reference was a tag.
    pub repo_tag: Option<String>,
    /// `name@digest` with the digest that the reference resolved to (of the index, if it was one).
    pub repo_digest: String,
    /// The image's wishes.
    pub config: ImageConfig,
    /// Layers, bottom first.
    pub layers: Vec<LayerKey>,
    /// Bytes the layers take on disk.
    pub size: u64,
}

/// An image in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// Digest of the configuration.
    pub id: Digest,
    /// Every `name:tag` that points here, sorted.
    pub repo_tags: Vec<String>,
    /// Every `name@digest` that led here, sorted.
    pub repo_digests: Vec<String>,
    /// The image's wishes.
    pub config: ImageConfig,
    /// Layers, bottom first.
    pub layers: Vec<LayerKey>,
    /// Bytes the layers take on disk.
    pub size: u64,
}

impl ImageRecord {
    /// Adds the names of a further pull, and keeps them sorted and single.
    pub fn merge(&mut self, pulled: &PulledImage) {
        add(&mut self.repo_tags, pulled.repo_tag.as_ref());
        add(&mut self.repo_digests, Some(&pulled.repo_digest));
    }
}

impl From<&PulledImage> for ImageRecord {
    fn from(pulled: &PulledImage) -> Self {
        Self {
            id: pulled.id.clone(),
            repo_tags: pulled.repo_tag.iter().cloned().collect(),
            repo_digests: vec![pulled.repo_digest.clone()],
            config: pulled.config.clone(),
            layers: pulled.layers.clone(),
            size: pulled.size,
        }
    }
}

fn add(names: &mut Vec<String>, name: Option<&String>) {
    if let Some(name) = name
        && let Err(at) = names.binary_search(name)
    {
        names.insert(at, name.clone());
    }
}

/// The records of images.
pub trait ImageIndex: Send + Sync {
    /// In one transaction: adds the image (or merges its names into the record of the same id), takes the tag away
    /// from any other image that had it, and marks the image's layers as synced.
    ///
    /// # Errors
    /// When the store cannot be written, or a layer of the image has no record (it was removed meanwhile).
    fn commit_image(&self, image: &PulledImage) -> Result<()>;

    /// The image of this id.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn image(&self, id: &Digest) -> Result<Option<ImageRecord>>;

    /// Every image.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn images(&self) -> Result<Vec<ImageRecord>>;

    /// Removes the image with all its names; containers may still refer to its layers. False if there was none.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn remove_image(&self, id: &Digest) -> Result<bool>;
}

/// Finds an image by what CRI's `ImageSpec.image` may hold: an id with or without `sha256:`, a tag, or a name with
/// digest, normalised.
///
/// # Errors
/// When the store cannot be read.
pub fn lookup(index: &dyn ImageIndex, image: &str) -> Result<Option<ImageRecord>> {
    let id = Digest::parse(image).or_else(|_| Digest::parse(&format!("sha256:{image}")));
    if let Ok(id) = id
        && let Some(found) = index.image(&id)?
    {
        return Ok(Some(found));
    }
    let Ok(reference) = Reference::parse(image) else { return Ok(None) };
    Ok(find(&index.images()?, &reference).cloned())
}

/// The image among `images` that `reference` names.
#[must_use]
pub fn find<'a>(images: &'a [ImageRecord], reference: &Reference) -> Option<&'a ImageRecord> {
    let tag = reference.repo_tag();
    let digest = reference.digest().map(|digest| reference.repo_digest(digest));
    images.iter().find(|image| {
        let by_tag = tag.as_ref().is_some_and(|tag| image.repo_tags.contains(tag));
        by_tag || digest.as_ref().is_some_and(|digest| image.repo_digests.contains(digest))
    })
}
