//! Everything this shim knows.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_cgroup::Hierarchies;
use tokio::sync::watch;

use super::container::Container;
use super::events::Events;
use crate::error::CallError;
use crate::reaper::Reaper;

/// The shim of one pod, or of one container that is in none.
#[derive(Debug)]
pub(super) struct Shim {
    pub(super) namespace: String,
    pub(super) exe: Arc<OwnedFd>,
    pub(super) hierarchies: Arc<Hierarchies>,
    pub(super) reaper: Arc<Reaper>,
    pub(super) events: Arc<Events>,
    /// Turns true with the first call.
    pub(super) claimed: AtomicBool,
    /// Turns true when the shim is to end.
    pub(super) ending: watch::Sender<bool>,
    containers: Mutex<BTreeMap<String, Slot>>,
}

/// An id that is taken.
#[derive(Debug)]
enum Slot {
    Creating,
    Ready(Arc<Container>),
}

/// An id taken for a container that is being built; given back unless it is filled.
#[derive(Debug)]
pub(super) struct Claim {
    shim: Arc<Shim>,
    id: String,
}

impl Shim {
    /// One without containers.
    pub(super) fn new(
        namespace: String,
        exe: OwnedFd,
        hierarchies: Hierarchies,
        events: Arc<Events>,
    ) -> Shim {
        Shim {
            namespace,
            exe: Arc::new(exe),
            hierarchies: Arc::new(hierarchies),
            reaper: Arc::default(),
            events,
            claimed: AtomicBool::new(false),
            ending: watch::Sender::new(false),
            containers: Mutex::default(),
        }
    }

    /// Takes an id for a new container.
    pub(super) fn claim(self: &Arc<Self>, id: &str) -> Result<Claim, CallError> {
        let mut slots = self.slots();
        if *self.ending.borrow() {
            return Err(CallError::Ending);
        }
        if slots.contains_key(id) {
            return Err(CallError::Exists(id.to_owned()));
        }
        slots.insert(id.to_owned(), Slot::Creating);
        Ok(Claim { shim: self.clone(), id: id.to_owned() })
    }

    /// A container that was built.
    pub(super) fn find(&self, id: &str) -> Result<Arc<Container>, CallError> {
        self.claimed.store(true, Ordering::Relaxed);
        match self.slots().get(id) {
            Some(Slot::Ready(container)) => Ok(container.clone()),
            Some(Slot::Creating) => {
                let needs = "wait for Create to answer";
                Err(CallError::State { id: id.to_owned(), state: "being created", needs })
            }
            None => Err(CallError::Unknown(id.to_owned())),
        }
    }

    /// Forgets a container.
    pub(super) fn forget(&self, id: &str) {
        self.slots().remove(id);
    }

    /// Lets the shim end if it has no container; from then on it takes none. Whether it does.
    pub(super) fn end_if_empty(&self) -> bool {
        let slots = self.slots();
        if slots.is_empty() {
            self.ending.send_replace(true);
        }
        slots.is_empty()
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// The container is built: everybody may find it.
    pub(super) fn fill(self, container: Arc<Container>) {
        self.shim.slots().insert(self.id.clone(), Slot::Ready(container));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = self.shim.slots();
        if matches!(slots.get(&self.id), Some(Slot::Creating)) {
            slots.remove(&self.id);
        }
    }
}
