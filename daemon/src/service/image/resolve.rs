//! What a container needs to know of its image.

use super::find::find;
use crate::pod::{Error, ImageForContainer, Images as Lookup};
use berth_image::ImageRecord;
use berth_store::Store;

/// Looks images up in the store.
#[derive(Debug, Clone)]
pub struct Images {
    store: Store,
}

impl Images {
    /// Images of `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }
}

impl Lookup for Images {
    fn resolve(&self, image: &str) -> Result<ImageForContainer, Error> {
        let found = find(&self.store, image).map_err(|error| Error::Step {
            class: error.class(),
            word: None,
            step: format!("look up image {image:?}"),
            cause: error.to_string(),
        })?;
        found.map(for_container).ok_or_else(|| Error::Step {
            class: berth_core::ErrorClass::NotFound,
            word: None,
            step: format!("image {image:?}"),
            cause: "not found on this node: pull it first".to_owned(),
        })
    }
}

fn for_container(record: ImageRecord) -> ImageForContainer {
    let id = record.id.to_string();
    let config = record.config;
    ImageForContainer {
        reference: record.repo_digests.into_iter().next().unwrap_or_else(|| id.clone()),
        id,
        layers: record.layers,
        env: config.env,
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        working_dir: config.working_dir,
        user: config.user,
        stop_signal: config.stop_signal,
    }
}
