//! Layers that nothing refers to, and what a crash left.

use super::Puller;
use super::error::ErrorKind;
use berth_snapshot::{LayerKey, Staging};
use std::collections::BTreeSet;

/// What was put in order at start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Layers dropped: not known to have reached the disk, without a record, or without a directory.
    pub layers: Vec<LayerKey>,
    /// Images dropped because a layer of theirs is gone; they must be pulled again.
    pub images: Vec<String>,
}

impl Puller {
    /// Removes every layer that no image, no container and no pull under way refers to. Blocks.
    ///
    /// # Errors
    /// When records cannot be changed, or a directory cannot be removed: it is then removed at the next start.
    pub fn collect_garbage(&self) -> Result<Vec<LayerKey>, ErrorKind> {
        let shared = &self.0;
        // Records and places go together, so that a pull that begins now sees neither or both.
        let taken: Result<(Vec<LayerKey>, Vec<Staging>), ErrorKind> = shared.pins.frozen(|keep| {
            let keys = shared.layers.remove_unreferenced_layers(keep)?;
            let mut gone = Vec::new();
            for key in &keys {
                gone.extend(shared.snapshots.layer_detach(key)?);
            }
            Ok((keys, gone))
        });
        let (keys, gone) = taken?;
        drop(gone);
        Ok(keys)
    }

    /// Puts records and directories in agreement. To be called once, before the first pull; `clean` says whether the
    /// last daemon ended properly (or only it, and not the machine, went down). Blocks.
    ///
    /// # Errors
    /// When records or directories cannot be read or changed.
    pub fn recover(&self, clean: bool) -> Result<Recovered, ErrorKind> {
        let shared = &self.0;
        let records = shared.layers.layers()?;
        let on_disk: BTreeSet<LayerKey> = shared.snapshots.layers()?.into_iter().collect();
        let lost = |record: &&berth_snapshot::LayerRecord| {
            (!clean && !record.synced) || !on_disk.contains(&record.key)
        };
        let dropped: BTreeSet<LayerKey> =
            records.iter().filter(lost).map(|record| record.key.clone()).collect();
        let known: BTreeSet<&LayerKey> = records.iter().map(|record| &record.key).collect();
        let strays = on_disk.iter().filter(|key| !known.contains(key)).cloned();
        let mut recovered = Recovered { images: self.drop_broken_images(&dropped)?, ..Recovered::default() };
        let dropped: Vec<LayerKey> = dropped.into_iter().collect();
        shared.layers.remove_layers(&dropped)?;
        recovered.layers = dropped.into_iter().chain(strays).collect();
        for key in &recovered.layers {
            shared.snapshots.layer_remove(key)?;
        }
        recovered.layers.sort();
        Ok(recovered)
    }

    fn drop_broken_images(&self, dropped: &BTreeSet<LayerKey>) -> Result<Vec<String>, ErrorKind> {
        let mut broken = Vec::new();
        for image in self.0.images.images()? {
            if image.layers.iter().any(|key| dropped.contains(key)) {
                self.0.images.remove_image(&image.id)?;
                broken.push(image.id.to_string());
            }
        }
        Ok(broken)
    }
}
