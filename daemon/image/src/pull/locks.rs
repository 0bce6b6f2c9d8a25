//! Who works on which layer, and which layers must not be collected.

use berth_snapshot::{Digest, LayerKey};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One lock per digest.
///
/// A layer takes the lock of its chainID until it is committed, and below that the lock of its diffID while it is
/// fetched. Whoever holds a chain lock waits only for shorter chains, and whoever holds a diff lock waits for no
/// other lock: so there is no circle.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

/// A lock that is held.
pub(crate) type Held = OwnedMutexGuard<()>;

impl Locks {
    pub(crate) async fn chain(&self, chain_id: &Digest) -> Held {
        self.take(format!("chain {chain_id}")).await
    }

    pub(crate) async fn diff(&self, diff_id: &Digest) -> Held {
        self.take(format!("diff {diff_id}")).await
    }

    async fn take(&self, name: String) -> Held {
        let one = {
            let mut all = lock(&self.0);
            // Locks that nobody holds or waits for are forgotten when the table is looked at.
            all.retain(|_, one| Arc::strong_count(one) > 1);
            Arc::clone(all.entry(name).or_default())
        };
        one.lock_owned().await
    }
}

/// Layers of pulls under way, counted.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    counts: Mutex<HashMap<LayerKey, usize>>,
    /// Held while layers are collected and while new ones are pinned. Letting go needs no more than the counts.
    gate: Mutex<()>,
}

impl Pins {
    /// Keeps these layers until the pin is dropped, whether or not they exist yet. Waits for a collection under way.
    pub(crate) fn pin(self: &Arc<Self>, keys: Vec<LayerKey>) -> Pin {
        let _gate = lock(&self.gate);
        let mut counts = lock(&self.counts);
        for key in &keys {
            *counts.entry(key.clone()).or_default() += 1;
        }
        Pin { pins: Arc::clone(self), keys }
    }

    /// Runs `work` with the pinned keys, while no new pin can be made.
    pub(crate) fn frozen<T>(&self, work: impl FnOnce(&BTreeSet<LayerKey>) -> T) -> T {
        let _gate = lock(&self.gate);
        let keys = lock(&self.counts).keys().cloned().collect();
        work(&keys)
    }
}

/// Layers that are kept.
#[derive(Debug)]
pub(crate) struct Pin {
    pins: Arc<Pins>,
    keys: Vec<LayerKey>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut counts = lock(&self.pins.counts);
        for key in &self.keys {
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
            }
        }
    }
}
