//! Everything the shim knows of its pod.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_cgroup::Hierarchies;
use berth_core::Timestamp;
use tokio::sync::{Semaphore, watch};

use crate::container::Container;
use crate::error::CallError;
use crate::io::turns::Turns;
use crate::journal::Journal;
use crate::reaper::Reaper;
use crate::sandbox::Sandbox;
use crate::slots::{Claim, Slots};

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
    pub(crate) containers: Slots<Container>,
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
            containers: Slots::default(),
        }
    }

    /// Takes an id for a new container.
    pub(crate) fn claim(&self, id: &str) -> Result<Claim<Container>, CallError> {
        self.containers.claim(id, || self.closing.load(Ordering::Relaxed))
    }

    /// Whether no id is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.containers.if_empty(|| ())
    }
}
