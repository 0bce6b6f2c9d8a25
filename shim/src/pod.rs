//! Everything the shim knows of its pod.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_cgroup::Hierarchies;
use berth_core::Timestamp;
use tokio::sync::{Semaphore, watch};

use crate::container::Container;
use crate::error::CallError;
use crate::io::turns::Turns;
use crate::journal::Journal;
use crate::reaper::Reaper;
use crate::sandbox::Sandbox;

/// So many execs at once: each may hold output of some mebibytes.
const EXECS_MAX: usize = 64;

/// The pod of this shim.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) id: String,
    pub(crate) started_at: Timestamp,
    pub(crate) exe: Arc<OwnedFd>,
    pub(crate) hierarchies: Arc<Hierarchies>,
    pub(crate) journal: Journal,
    pub(crate) reaper: Arc<Reaper>,
    pub(crate) turns: Turns,
    pub(crate) exec_slots: Arc<Semaphore>,
    pub(crate) sandbox: tokio::sync::Mutex<Option<Sandbox>>,
    /// Turns true when a daemon has spoken to us at all.
    pub(crate) claimed: watch::Sender<bool>,
    /// True when no new container is taken any more.
    pub(crate) closing: AtomicBool,
    /// Turns true when the shim is to end.
    pub(crate) ending: watch::Sender<bool>,
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
pub(crate) struct Claim {
    pod: Arc<Pod>,
    id: String,
}

impl Pod {
    /// A pod without containers.
    pub(crate) fn new(id: String, exe: OwnedFd, hierarchies: Hierarchies, journal: Journal) -> Pod {
        Pod {
            id,
            started_at: Timestamp::now(),
            exe: Arc::new(exe),
            hierarchies: Arc::new(hierarchies),
            journal,
            reaper: Arc::default(),
            turns: Turns::default(),
            exec_slots: Arc::new(Semaphore::new(EXECS_MAX)),
            sandbox: tokio::sync::Mutex::new(None),
            claimed: watch::Sender::new(false),
            closing: AtomicBool::new(false),
            ending: watch::Sender::new(false),
            containers: Mutex::default(),
        }
    }

    /// Takes an id for a new container.
    pub(crate) fn claim(self: &Arc<Self>, id: &str) -> Result<Claim, CallError> {
        let mut slots = self.slots();
        if self.closing.load(Ordering::Relaxed) {
            return Err(CallError::Ending);
        }
        if slots.contains_key(id) {
            return Err(CallError::Exists(id.to_owned()));
        }
        slots.insert(id.to_owned(), Slot::Creating);
        Ok(Claim { pod: self.clone(), id: id.to_owned() })
    }

    /// A container that was built.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Container>, CallError> {
        match self.slots().get(id) {
            Some(Slot::Ready(container)) => Ok(container.clone()),
            Some(Slot::Creating) => {
                let needs = "wait for Create to answer";
                Err(CallError::State { id: id.to_owned(), state: "being created", needs })
            }
            None => Err(CallError::Unknown(id.to_owned())),
        }
    }

    /// Every container that was built, by id.
    pub(crate) fn all(&self) -> Vec<Arc<Container>> {
        let ready = |slot: &Slot| match slot {
            Slot::Ready(container) => Some(container.clone()),
            Slot::Creating => None,
        };
        self.slots().values().filter_map(ready).collect()
    }

    /// Whether a container is being built.
    pub(crate) fn is_creating(&self) -> bool {
        self.slots().values().any(|slot| matches!(slot, Slot::Creating))
    }

    /// Whether no id is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// Forgets a container.
    pub(crate) fn forget(&self, id: &str) {
        self.slots().remove(id);
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// The container is built: everybody may find it.
    pub(crate) fn fill(self, container: Arc<Container>) {
        self.pod.slots().insert(self.id.clone(), Slot::Ready(container));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = self.pod.slots();
        if matches!(slots.get(&self.id), Some(Slot::Creating)) {
            slots.remove(&self.id);
        }
    }
}
