//! Kills the daemon and shims at random, and knows whose shim it killed.

use anyhow::Result;
use berth_e2e::churn::Chance;
use berth_e2e::faults;
use berth_e2e::harness::Bed;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Who was killed.
#[derive(Default)]
pub(super) struct Killer {
    /// No further pods are to be begun.
    pub(super) over: AtomicBool,
    lost: Mutex<BTreeSet<String>>,
}

/// How many of each.
#[derive(Debug, Default)]
pub(super) struct Killed {
    pub(super) daemons: usize,
    pub(super) shims: usize,
}

impl Killer {
    /// Whether a pod's shim was killed.
    pub(super) fn took(&self, pod: &str) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).contains(pod)
    }

    /// Kills until there were so many.
    pub(super) async fn kill(&self, bed: &Bed, chance: &mut Chance, kills: usize) -> Result<Killed> {
        let mut killed = Killed::default();
        while killed.daemons + killed.shims < kills {
            tokio::time::sleep(Duration::from_millis(chance.within(50..900))).await;
            if chance.percent(60) {
                bed.node.kill_daemon().await?;
                tokio::time::sleep(Duration::from_millis(chance.within(0..200))).await;
                bed.node.start_daemon().await?;
                killed.daemons += 1;
            } else if self.kill_shim(bed, chance) {
                killed.shims += 1;
            }
        }
        Ok(killed)
    }

    fn kill_shim(&self, bed: &Bed, chance: &mut Chance) -> bool {
        let shims = faults::shims(&bed.node, None);
        let count = u64::try_from(shims.len()).unwrap_or(0);
        let chosen = usize::try_from(chance.within(0..count.max(1))).unwrap_or(0);
        let Some(pod) = shims.get(chosen).and_then(faults::sandbox_of) else { return false };
        // Noted first: whoever sees the end of it must find its reason.
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.clone());
        faults::kill_shims(&bed.node, Some(&pod)) > 0
    }
}
