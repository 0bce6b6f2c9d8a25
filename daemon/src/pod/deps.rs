//! What pods stand on: built once by the daemon, shared by every actor.

use super::clock::Clock;
use super::{Error, Recorder};
use crate::blocking::{Blocking, Room};
use berth_cgroup::{Driver, Hierarchies};
use berth_core::{ContainerId, SandboxId};
use berth_network::Manager;
use berth_snapshot::{LayerKey, Snapshots};
use berth_store::Store;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an image says to whoever runs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageForContainer {
    /// `sha256:<config>`.
    pub id: String,
    /// A digest reference, or the id where it has none.
    pub reference: String,
    /// Its layers, bottom first.
    pub layers: Vec<LayerKey>,
    /// `NAME=value` each.
    pub env: Vec<String>,
    /// Entrypoint.
    pub entrypoint: Vec<String>,
    /// Command.
    pub cmd: Vec<String>,
    /// Working directory.
    pub working_dir: String,
    /// User, with or without group.
    pub user: String,
    /// Stop signal, by name or number.
    pub stop_signal: String,
}

/// Where images are looked up.
pub trait Images: Send + Sync {
    /// The image that a request names by id, tag or digest. Blocking.
    ///
    /// # Errors
    /// Not there, or a text that is no reference.
    fn resolve(&self, image: &str) -> Result<ImageForContainer, Error>;
}

/// Directories and the node's settings.
pub struct Deps {
    /// Runtime state, emptied by a reboot.
    pub state: PathBuf,
    /// Where network namespaces are pinned.
    pub netns_dir: PathBuf,
    /// The records.
    pub store: Store,
    /// Layers and writable trees.
    pub snapshots: Snapshots,
    /// Images.
    pub images: Arc<dyn Images>,
    /// The network.
    pub network: Arc<Manager>,
    /// The cgroup hierarchies of this host.
    pub hierarchies: Arc<Hierarchies>,
    /// The cgroup driver of this node.
    pub driver: Driver,
    /// The shim's binary, sealed.
    pub shim_exe: OwnedFd,
    /// Blocking work.
    pub blocking: Blocking,
    /// This boot.
    pub boot_id: String,
}

/// The dependencies and what pods add to them.
pub(crate) struct Ground {
    /// What the daemon gave.
    pub(crate) deps: Deps,
    /// The one writer.
    pub(crate) recorder: Recorder,
    /// Creation times.
    pub(crate) clock: Clock,
    /// Held while a sandbox's cgroup, or the default parent of those, is made or removed.
    pub(crate) default_parent: std::sync::Mutex<()>,
    /// Held for reading while a pod is attached, and alone while plugins are told which attachments live.
    pub(crate) attaching: Arc<tokio::sync::RwLock<()>>,
    /// Earlier readings of figures.
    pub(crate) stats: crate::stats::Cache,
}

impl std::ops::Deref for Ground {
    type Target = Deps;

    fn deref(&self) -> &Deps {
        &self.deps
    }
}

/// Where a pod keeps its things.
#[derive(Debug, Clone)]
pub(crate) struct PodPaths {
    /// `<state>/p/<id>`.
    pub(crate) dir: PathBuf,
    /// `<state>/s/<short id>`.
    pub(crate) socket: PathBuf,
}

impl PodPaths {
    /// Those of one sandbox.
    pub(crate) fn new(state: &Path, id: SandboxId) -> Self {
        Self { dir: state.join("p").join(id.as_str()), socket: state.join("s").join(id.short()) }
    }

    /// What the shim keeps.
    pub(crate) fn shim(&self) -> PathBuf {
        self.dir.join("shim")
    }

    /// The pod's shared memory.
    pub(crate) fn shm(&self) -> PathBuf {
        self.dir.join("shm")
    }

    /// One of the files made for the pod.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A container's bundle.
    pub(crate) fn bundle(&self, container: ContainerId) -> PathBuf {
        self.dir.join("c").join(container.as_str())
    }
}

impl Ground {
    /// Where a pod keeps its things.
    pub(crate) fn paths(&self, id: SandboxId) -> PodPaths {
        PodPaths::new(&self.state, id)
    }
}

impl Ground {
    /// Blocking work through the daemon's one door.
    ///
    /// # Errors
    /// The work's own, or the door is closed.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.block_in(Room::Work, what, work).await
    }

    /// The same against another bound.
    ///
    /// # Errors
    /// The work's own, or the door is closed.
    pub(crate) async fn block_in<T: Send + 'static>(
        &self,
        room: Room,
        what: &'static str,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.blocking.run_in(room, what, work).await.map_err(|error| Error::step(what, &error))?
    }

    /// Saves rows and waits for it.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn save(&self, rows: Vec<super::Row>) -> Result<(), Error> {
        self.recorder.save(rows).await
    }
}
