//! What lists and statuses read: a pod as it was after its last change, never a mailbox.

use super::machine::Machine;
use crate::container::ContainerRecord;
use crate::sandbox::SandboxRecord;
use crate::supervisor::Shim;
use berth_core::ContainerId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A pod at a moment.
#[derive(Debug, Default)]
pub struct PodView {
    /// Its sandbox; none while it is being made and after it is gone.
    pub sandbox: Option<Arc<SandboxRecord>>,
    /// Its containers.
    pub containers: BTreeMap<ContainerId, Arc<ContainerRecord>>,
    /// Its shim, while it has one.
    pub shim: Option<Shim>,
}

impl PodView {
    /// The pod as its machine has it.
    pub(crate) fn of(machine: &Machine, shim: Option<&Shim>) -> Self {
        Self {
            sandbox: machine.sandbox().cloned(),
            containers: machine.containers().map(|record| (record.id, Arc::clone(record))).collect(),
            shim: shim.cloned(),
        }
    }
}

/// The place where an actor puts its view and everybody finds it.
#[derive(Debug, Clone, Default)]
pub struct Views(Arc<RwLock<Arc<PodView>>>);

impl Views {
    /// The latest view.
    #[must_use]
    pub fn latest(&self) -> Arc<PodView> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the view.
    pub(crate) fn publish(&self, view: PodView) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}
