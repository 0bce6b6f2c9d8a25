//! Records in memory.

use berth_core::error::Result;
use berth_image::{Digest, ImageIndex, ImageRecord, PulledImage};
use berth_snapshot::{LayerIndex, LayerKey, LayerRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

#[derive(Default)]
pub(crate) struct Memory {
    layers: Mutex<BTreeMap<LayerKey, LayerRecord>>,
    images: Mutex<BTreeMap<Digest, ImageRecord>>,
}

impl LayerIndex for Memory {
    fn layer(&self, key: &LayerKey) -> Result<Option<LayerRecord>> {
        Ok(self.layers.lock().unwrap().get(key).cloned())
    }

    fn put_layer(&self, record: &LayerRecord) -> Result<()> {
        self.layers.lock().unwrap().insert(record.key.clone(), record.clone());
        Ok(())
    }

    fn layers(&self) -> Result<Vec<LayerRecord>> {
        Ok(self.layers.lock().unwrap().values().cloned().collect())
    }

    fn remove_layers(&self, keys: &[LayerKey]) -> Result<()> {
        self.layers.lock().unwrap().retain(|key, _| !keys.contains(key));
        Ok(())
    }

    fn remove_unreferenced_layers(&self, keep: &BTreeSet<LayerKey>) -> Result<Vec<LayerKey>> {
        let images = self.images.lock().unwrap();
        let used: BTreeSet<&LayerKey> = images.values().flat_map(|image| &image.layers).collect();
        let mut layers = self.layers.lock().unwrap();
        let gone: Vec<LayerKey> =
            layers.keys().filter(|key| !used.contains(key) && !keep.contains(key)).cloned().collect();
        layers.retain(|key, _| !gone.contains(key));
        Ok(gone)
    }
}

impl ImageIndex for Memory {
    fn commit_image(&self, image: &PulledImage) -> Result<()> {
        let mut layers = self.layers.lock().unwrap();
        for key in &image.layers {
            let layer =
                layers.get_mut(key).ok_or_else(|| berth_core::Error::internal(format!("no layer {key}")))?;
            layer.synced = true;
        }
        let mut images = self.images.lock().unwrap();
        if let Some(tag) = &image.repo_tag {
            images.values_mut().for_each(|other| other.repo_tags.retain(|known| known != tag));
        }
        images.entry(image.id.clone()).or_insert_with(|| ImageRecord::from(image)).merge(image);
        Ok(())
    }

    fn image(&self, id: &Digest) -> Result<Option<ImageRecord>> {
        Ok(self.images.lock().unwrap().get(id).cloned())
    }

    fn images(&self) -> Result<Vec<ImageRecord>> {
        Ok(self.images.lock().unwrap().values().cloned().collect())
    }

    fn remove_image(&self, id: &Digest) -> Result<bool> {
        Ok(self.images.lock().unwrap().remove(id).is_some())
    }
}
