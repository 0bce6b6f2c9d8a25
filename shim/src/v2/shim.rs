//! Everything this shim knows.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_cgroup::Hierarchies;
use tokio::sync::watch;

use super::container::Container;
use super::events::Events;
use crate::error::CallError;
use crate::reaper::Reaper;
use crate::slots::{Claim, Slots};

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
    pub(super) containers: Slots<Container>,
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
            containers: Slots::default(),
        }
    }

    /// Takes an id for a new container.
    pub(super) fn claim(&self, id: &str) -> Result<Claim<Container>, CallError> {
        self.containers.claim(id, || *self.ending.borrow())
    }

    /// A container that was built.
    pub(super) fn find(&self, id: &str) -> Result<Arc<Container>, CallError> {
        self.claimed.store(true, Ordering::Relaxed);
        self.containers.find(id)
    }

    /// Lets the shim end if it has no container; from then on it takes none. Whether it does.
    pub(super) fn end_if_empty(&self) -> bool {
        self.containers.if_empty(|| _ = self.ending.send_replace(true))
    }
}
