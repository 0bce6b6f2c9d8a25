//! What a registry holds: repositories with tags, manifests and blobs.

use crate::image::{Blob, Image};
use std::collections::BTreeMap;

/// One repository.
#[derive(Debug, Default)]
pub(super) struct Repository {
    /// Tag to digest.
    tags: BTreeMap<String, String>,
    manifests: BTreeMap<String, Blob>,
    blobs: BTreeMap<String, Blob>,
}

/// All repositories by name.
#[derive(Debug, Default)]
pub(super) struct Content {
    repositories: BTreeMap<String, Repository>,
}

impl Content {
    /// Adds an image's blobs and manifest, under a tag if one is given.
    pub(super) fn image(&mut self, name: &str, tag: Option<&str>, image: &Image) {
        let repository = self.repositories.entry(name.to_owned()).or_default();
        for blob in &image.blobs {
            repository.blobs.insert(blob.digest.clone(), blob.clone());
        }
        self.manifest(name, tag, &image.manifest);
    }

    /// Adds a manifest or index, under a tag if one is given.
    pub(super) fn manifest(&mut self, name: &str, tag: Option<&str>, manifest: &Blob) {
        let repository = self.repositories.entry(name.to_owned()).or_default();
        repository.manifests.insert(manifest.digest.clone(), manifest.clone());
        if let Some(tag) = tag {
            repository.tags.insert(tag.to_owned(), manifest.digest.clone());
        }
    }

    /// What `/v2/<name>/manifests/<reference>` names.
    pub(super) fn find_manifest(&self, name: &str, reference: &str) -> Option<Blob> {
        let repository = self.repositories.get(name)?;
        let digest = repository.tags.get(reference).map_or(reference, String::as_str);
        repository.manifests.get(digest).cloned()
    }

    /// What `/v2/<name>/blobs/<digest>` names.
    pub(super) fn find_blob(&self, name: &str, digest: &str) -> Option<Blob> {
        self.repositories.get(name)?.blobs.get(digest).cloned()
    }
}
