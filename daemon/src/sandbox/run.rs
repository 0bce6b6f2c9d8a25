//! The steps of RunPodSandbox. Each pushes its own undo before it acts; the first failure undoes them all.

use super::check::cgroup_of;
use super::{
    Live, NamespacePaths, SandboxConfig, SandboxNetwork, SandboxRecord, SandboxState, end, files, network,
    shm, sysctl,
};
use crate::blocking::Room;
use crate::pod::{Cancel, Error, Ground, Row, faults, stamp};
use crate::probe::Wish;
use crate::supervisor::{self, Shim};
use crate::undo::Undo;
use berth_core::fault::Point;
use berth_core::{SandboxId, Timestamp};
use berth_network::{Attachment, Netns};
use berth_proto::shim::StartSandboxRequest;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A sandbox that has been made.
pub(crate) struct Made {
    /// Its record, saved.
    pub(crate) record: SandboxRecord,
    /// Its shim.
    pub(crate) shim: Shim,
}

struct Making<'a> {
    ground: &'a Arc<Ground>,
    record: SandboxRecord,
    cancel: Cancel,
    undo: Undo,
}

/// Why a sandbox was not made.
pub(crate) struct NotMade {
    /// The step that failed, or that it was cancelled.
    pub(crate) error: Error,
    /// What could not be undone, to be shown as not ready and removed later.
    pub(crate) remains: Option<Box<SandboxRecord>>,
}

impl From<Error> for NotMade {
    fn from(error: Error) -> Self {
        Self { error, remains: None }
    }
}

/// Makes a sandbox, or leaves nothing, or tells what is left.
pub(crate) async fn run(
    ground: &Arc<Ground>,
    id: SandboxId,
    handler: &str,
    config: SandboxConfig,
    cancel: Cancel,
) -> Result<Made, NotMade> {
    let record = draft(ground, id, handler, config)?;
    let mut making = Making { ground, record, cancel, undo: Undo::new() };
    match making.steps().await {
        Ok(shim) => Ok(Made { record: making.record, shim }),
        Err(error) => {
            tracing::warn!(sandbox = %id, %error, "the sandbox could not be made; undoing");
            let failures = making.undo.run(id.as_str()).await;
            let remains = remains(ground, making.record, &failures).await;
            Err(NotMade { error, remains })
        }
    }
}

/// Without failures the record goes last; with them it stays, so that nothing of the sandbox is forgotten.
async fn remains(
    ground: &Arc<Ground>,
    mut record: SandboxRecord,
    failures: &[Error],
) -> Option<Box<SandboxRecord>> {
    if failures.is_empty() {
        match ground.save(vec![Row::NoSandbox(record.id)]).await {
            Ok(()) => return None,
            Err(error) => {
                tracing::error!(sandbox = %record.id, %error, "the record of an undone sandbox stays")
            }
        }
    }
    let causes: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let cause = Some(format!("half made, and not undone: {}", causes.join("; ")));
    record.state = SandboxState::NotReady { at: Timestamp::now(), cause };
    if let Err(error) = ground.save(vec![Row::Sandbox(Arc::new(record.clone()))]).await {
        tracing::error!(sandbox = %record.id, %error, "what is left of a sandbox could not be saved");
    }
    Some(Box::new(record))
}

fn draft(
    ground: &Ground,
    id: SandboxId,
    handler: &str,
    config: SandboxConfig,
) -> Result<SandboxRecord, Error> {
    let cgroup = cgroup_of(&config, ground.driver, id)?.to_string();
    let created_at = stamp(ground, &config);
    let (handler, boot_id) = (handler.to_owned(), ground.boot_id.clone());
    let network = SandboxNetwork::Host;
    Ok(SandboxRecord {
        id,
        handler,
        config,
        created_at,
        boot_id,
        cgroup,
        network,
        state: SandboxState::Creating,
    })
}

impl Making<'_> {
    async fn steps(&mut self) -> Result<Shim, Error> {
        self.begin().await?;
        self.point(&faults::RUN_BEGUN)?;
        self.directories().await?;
        self.point(&faults::RUN_FILES)?;
        let (network, shim) =
            tokio::join!(attach(self.ground, &self.record), launch(self.ground, self.record.id));
        // The attachment is noted even if the shim failed: its undo needs nothing of it, a later reader might.
        if let Some(got) = network? {
            self.note(got);
        }
        let shim = shim?;
        self.point(&faults::RUN_SHIM)?;
        self.files().await?;
        let namespaces = self.namespaces(&shim).await?;
        self.point(&faults::RUN_STARTED)?;
        let socket = self.ground.paths(self.record.id).socket;
        self.record.state = SandboxState::Ready(Live { shim_pid: shim.pid(), socket, namespaces });
        self.ground.save(vec![Row::Sandbox(Arc::new(self.record.clone()))]).await?;
        Ok(shim)
    }

    /// Between two steps: a test may make it fail, a caller may have given it up.
    fn point(&self, point: &Point) -> Result<(), Error> {
        point.pass().map_err(|fault| Error::step("run sandbox", &fault))?;
        self.cancel.check("RunPodSandbox")
    }

    /// Plans the network and writes the record before anything is taken.
    async fn begin(&mut self) -> Result<(), Error> {
        if !self.record.config.host_network() {
            let (base, id, config) = (Arc::clone(self.ground), self.record.id, self.record.config.clone());
            let planned = self.ground.block("plan the network", move || plan(&base, id, &config));
            self.record.network = planned.await?;
        }
        self.ground.save(vec![Row::Sandbox(Arc::new(self.record.clone()))]).await
    }

    /// The pod's directory, its shared memory and its cgroup.
    async fn directories(&mut self) -> Result<(), Error> {
        let (ground, record) = (Arc::clone(self.ground), Arc::new(self.record.clone()));
        let undo = (Arc::clone(&ground), Arc::clone(&record));
        self.undo.push("remove the directory, the shared memory and the cgroup", move || {
            let (ground, record) = undo.clone();
            async move { end::remove_files(&ground, &record).await }
        });
        let undo = (Arc::clone(&ground), Arc::clone(&record));
        self.undo.push("detach the network and end the shim", move || {
            let (ground, record) = undo.clone();
            async move { end::tear_down(&ground, &record, None).await.1 }
        });
        let base = Arc::clone(&ground);
        ground.block("make the sandbox's directory", move || make_directories(&base, &record)).await?;
        match self.record.config.log_directory.as_str() {
            "" => Ok(()),
            logs => {
                let made = ground.blocking.host_path(Path::new(logs), Wish::MakeDirectory).await;
                made.map(drop).map_err(|error| Error::step("make the log directory", &error))
            }
        }
    }

    fn note(&mut self, got: Attachment) {
        if let SandboxNetwork::Own { attachment, .. } = &mut self.record.network {
            *attachment = Some(Box::new(got));
        }
    }

    async fn files(&self) -> Result<(), Error> {
        let (paths, config) = (self.ground.paths(self.record.id), self.record.config.clone());
        let ips = match &self.record.network {
            SandboxNetwork::Own { attachment: Some(got), .. } => got.addresses(),
            _ => Vec::new(),
        };
        self.ground.block("write the sandbox's files", move || files::write(&config, &paths, &ips)).await
    }

    async fn namespaces(&self, shim: &Shim) -> Result<NamespacePaths, Error> {
        let config = &self.record.config;
        let netns_path = match &self.record.network {
            SandboxNetwork::Own { netns, .. } => netns.display().to_string(),
            _ => String::new(),
        };
        let request = StartSandboxRequest {
            hostname: if config.host_network() { String::new() } else { files::hostname(config) },
            new_uts: !config.host_network(),
            new_ipc: !config.host_ipc(),
            shared_pid: config.shared_pid(),
            netns_path: netns_path.clone(),
            sysctls: sysctl::wanted(config).into_iter().collect(),
        };
        let made = shim.start_sandbox(&request).await?;
        Ok(NamespacePaths { net: netns_path, ipc: made.ipc_path, uts: made.uts_path, pid: made.pid_path })
    }
}

fn plan(ground: &Ground, id: SandboxId, config: &SandboxConfig) -> Result<SandboxNetwork, Error> {
    let netns: PathBuf = Netns::path_of(&ground.netns_dir, id.as_str());
    let planned = ground.network.plan(&network::wishes(id, config, &netns)?);
    let planned = planned.map_err(|error| Error::step("plan the pod's network", &error))?;
    let attachment = Some(Box::new(planned));
    Ok(SandboxNetwork::Own { netns, attachment, failures: None })
}

fn make_directories(ground: &Ground, record: &SandboxRecord) -> Result<(), Error> {
    let paths = ground.paths(record.id);
    let shim = paths.shim();
    let containers = paths.file("c");
    for dir in [&paths.dir, &containers, &shim] {
        private_dir(dir)?;
    }
    if let Some(sockets) = paths.socket.parent() {
        private_dir(sockets)?;
    }
    if !record.config.host_ipc() {
        shm::make(&paths.shm())?;
    }
    if let SandboxNetwork::Own { netns, .. } = &record.network {
        end::note_pin(&paths.dir, netns)?;
    }
    end::make_cgroup(ground, record)
}

fn private_dir(path: &std::path::Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Error::file(format!("make directory {}", path.display()), &error))
}

/// The network namespace and what hangs in it; none in the host's network.
async fn attach(ground: &Arc<Ground>, record: &SandboxRecord) -> Result<Option<Attachment>, Error> {
    let SandboxNetwork::Own { netns, attachment: Some(planned), .. } = &record.network else {
        return Ok(None);
    };
    let (base, netns, planned) = (Arc::clone(ground), netns.clone(), planned.clone());
    let attaching = Arc::clone(&ground.attaching).read_owned().await;
    let attached = ground.block_in(Room::Attach, "attach the network", move || {
        let _attaching = attaching;
        Netns::create(&netns).map_err(|error| Error::internal("make the network namespace", error))?;
        faults::RUN_NETNS.pass().map_err(|fault| Error::step("run sandbox", &fault))?;
        let got =
            base.network.setup(&planned).map_err(|error| Error::step("attach the pod's network", &error))?;
        faults::RUN_NETWORK.pass().map_err(|fault| Error::step("run sandbox", &fault))?;
        Ok(got)
    });
    attached.await.map(Some)
}

async fn launch(ground: &Arc<Ground>, id: SandboxId) -> Result<Shim, Error> {
    let started = Timestamp::now();
    let shim = supervisor::launch(ground, id).await?;
    tracing::debug!(sandbox = %id, pid = shim.pid(), took = ?started.age(), "the shim is up");
    Ok(shim)
}
