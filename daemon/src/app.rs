//! The composition root: every part of the daemon, wired once.

use crate::admission::Admission;
use crate::blocking::Blocking;
use crate::paths::Paths;
use crate::pod::Pods;
use crate::{driver, host, wiring};
use anyhow::Context;
use berth_cgroup::{Driver, Hierarchies};
use berth_config::Config;
use berth_core::Timestamp;
use berth_image::Puller;
use berth_network::Manager;
use berth_snapshot::Snapshots;
use berth_store::Store;
use std::path::Path;
use std::sync::Arc;

/// What a verb may need.
pub struct App {
    /// Keys as loaded.
    pub config: Config,
    /// Directories.
    pub paths: Paths,
    /// The door to blocking work.
    pub blocking: Blocking,
    /// How many calls may run at one time.
    pub admission: Admission,
    /// Records.
    pub store: Store,
    /// Layers and writable trees on disk.
    pub snapshots: Snapshots,
    /// Pulls images.
    pub puller: Puller,
    /// Attaches pods.
    pub network: Arc<Manager>,
    /// The kernel's cgroup trees.
    pub hierarchies: Arc<Hierarchies>,
    /// The answer to RuntimeConfig, which never flips while pods exist.
    pub driver: Driver,
    /// What was found out about this host at start.
    pub host: host::Host,
    /// Used space of containers' writable trees, measured now and then.
    pub usage: crate::service::image::fs_info::Cache,
    /// One actor per pod.
    pub pods: Pods,
    /// When this daemon started.
    pub started_at: Timestamp,
}

/// The records. An empty file beside layers is what is left of them after a crash of a file system: taken for a new node,
/// it would cost every pod, layer and image there is.
fn store(root: &Path) -> anyhow::Result<Store> {
    let file = root.join(berth_store::FILE);
    let empty = std::fs::metadata(&file).is_ok_and(|about| about.len() == 0);
    let layers = std::fs::read_dir(root.join("layers")).is_ok_and(|mut layers| layers.next().is_some());
    anyhow::ensure!(
        !(empty && layers),
        "{} is empty, and there are layers beside it: the records of this node are lost. Put a copy of the file back; or \
         remove it to begin anew, which ends every pod and removes every image of this node",
        file.display()
    );
    Ok(Store::open(root)?)
}

impl App {
    /// Opens and wires every part. Blocking; called once, inside the runtime, before anything is served.
    ///
    /// # Errors
    /// A part that cannot be opened, with what to do about it.
    pub fn open(config: Config, paths: Paths) -> anyhow::Result<Self> {
        let host = host::Host::look();
        host.warn();
        let store = store(&paths.root)?;
        let snapshots = Snapshots::open(&paths.root).context("open the layer store")?;
        let (blocking, hierarchies) = (Blocking::default(), Arc::new(Hierarchies::discover()?));
        let driver = driver::choose(&config.cgroup, &store)?;
        let network = Arc::new(Manager::new(wiring::network(&config.network)?, Arc::new(store.clone())));
        let (layers, images) = (Arc::new(store.clone()), Arc::new(store.clone()));
        let puller = Puller::new(wiring::puller(&config.image), snapshots.clone(), layers, images);
        let pods = Pods::open(crate::pod::Deps {
            state: paths.state.clone(),
            netns_dir: wiring::NETNS_DIR.into(),
            store: store.clone(),
            snapshots: snapshots.clone(),
            images: Arc::new(crate::service::image::resolve::Images::new(store.clone())),
            network: network.clone(),
            hierarchies: hierarchies.clone(),
            driver,
            shim_exe: wiring::shim(&config.runtime)?,
            blocking: blocking.clone(),
            boot_id: host.boot_id.clone(),
        })?;
        know(&network, &pods);
        let (admission, started_at) = (Admission::new(&config.grpc), Timestamp::now());
        Ok(Self {
            config,
            paths,
            blocking,
            admission,
            store,
            snapshots,
            puller,
            network,
            hierarchies,
            driver,
            host,
            usage: crate::service::image::fs_info::Cache::default(),
            pods,
            started_at,
        })
    }
}

/// Lets the network ask the pods for their attachments.
fn know(network: &Manager, pods: &Pods) {
    let pods = pods.clone();
    network.ask_about_pods(move || {
        let sandboxes = pods.views().into_iter().filter_map(|view| view.sandbox.clone());
        sandboxes.filter_map(|sandbox| sandbox.attachment().cloned()).collect()
    });
}
