//! Layers that nothing refers to, and what a crash left.

use super::error::ErrorKind;
use super::locks::Pin;
use super::{Puller, Shared};
use berth_core::{Classified, ErrorClass};
use berth_snapshot::{LayerKey, Staging};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;

/// What was released is collected this much later, together with what else is released meanwhile. A container's record
/// goes after its writable tree, well within this time.
const SOON: Duration = Duration::from_secs(2);

/// What was put in order at start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Layers dropped: not known to have reached the disk, without a record, or without a directory.
    pub layers: Vec<LayerKey>,
    /// Images dropped because a layer of theirs is gone; they must be pulled again.
    pub images: Vec<String>,
    /// Layers that are useless and could not be removed, and why. The next start tries again.
    pub stuck: Vec<String>,
}

impl Shared {
    fn collect(&self) -> Result<Vec<LayerKey>, ErrorKind> {
        // Records and places go together, so that a pull that begins now sees neither or both.
        let taken: Result<(Vec<LayerKey>, Vec<Staging>), ErrorKind> = self.pins.frozen(|keep| {
            let keys = self.layers.remove_unreferenced_layers(keep)?;
            let mut gone = Vec::new();
            for key in &keys {
                gone.extend(self.snapshots.layer_detach(key)?);
            }
            Ok((keys, gone))
        });
        let (keys, gone) = taken?;
        drop(gone);
        Ok(keys)
    }

    pub(super) fn collect_soon(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.collecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        runtime.spawn(async move {
            tokio::time::sleep(SOON).await;
            // What is released from here on asks anew.
            shared.collecting.store(false, Ordering::Release);
            let threads = shared.threads.clone();
            match threads.run(move || shared.collect()).await {
                Ok(layers) if !layers.is_empty() => tracing::info!(layers = layers.len(), "removed layers"),
                Ok(_) => {}
                Err(error) => {
                    let error = berth_core::error::chain(&error);
                    tracing::warn!(error, "layers could not be removed, the next removal tries again");
                }
            }
        });
    }

    /// After a failed pull: what it finished stays a while for the next try, unless the disk is full.
    pub(super) fn collect_after(self: &Arc<Self>, failure: &ErrorKind, pin: Option<Pin>) {
        let Some(pin) = pin else { return };
        if failure.class() == ErrorClass::ResourceExhausted {
            drop(pin);
            return self.collect_soon();
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(shared.options.keep_failed).await;
            drop(pin);
            shared.collect_soon();
        });
    }
}

impl Puller {
    /// Removes every layer that no image, no container and no pull under way refers to. Blocks.
    ///
    /// # Errors
    /// When records cannot be changed, or a directory cannot be removed: it is then removed at the next start.
    pub fn collect_garbage(&self) -> Result<Vec<LayerKey>, ErrorKind> {
        self.0.collect()
    }

    /// Does [`collect_garbage`](Self::collect_garbage) in a moment, in a thread, once for all who ask meanwhile. To be
    /// called whenever something may have let go of layers: an image or a container was removed. Costs nothing; outside
    /// of an async runtime it does nothing.
    pub fn collect_soon(&self) {
        self.0.collect_soon();
    }

    /// Puts records and directories in agreement. To be called once, before the first pull; `clean` says whether the
    /// last daemon ended properly (or only it, and not the machine, went down). Blocks.
    ///
    /// # Errors
    /// When records or directories cannot be read, or records cannot be changed. A directory that cannot be removed is
    /// told in [`Recovered::stuck`] and does not keep the node down.
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
            if let Err(error) = shared.snapshots.layer_remove(key) {
                recovered.stuck.push(format!("layer {key}: {}", berth_core::error::chain(&error)));
            }
        }
        recovered
            .stuck
            .extend(shared.snapshots.leftovers().iter().map(|error| berth_core::error::chain(error)));
        for stuck in &recovered.stuck {
            tracing::warn!(
                stuck,
                "what an earlier daemon left could not be removed, the next start tries again"
            );
        }
        recovered.layers.sort();
        // Layers of pulls that failed before, and of images and containers removed just before the end.
        self.collect_soon();
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
