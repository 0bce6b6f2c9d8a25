//! All pods of the node, by id and by key, and the way to their actors.

use super::actor::{self, Mail};
use super::machine::{Draft, Machine, Reply, Request};
use super::{Deps, Error, Ground, Noun, PodView, Recorder, Views};
use crate::container::{ContainerConfig, ContainerRecord};
use crate::pod::clock::Clock;
use crate::sandbox::{SandboxConfig, SandboxKey, SandboxRecord};
use crate::supervisor::Shim;
use berth_core::id::lookup;
use berth_core::{ContainerId, SandboxId, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use tokio::sync::{mpsc, oneshot};

/// Mail that may wait for an actor.
const MAILBOX: usize = 256;

/// The pods of this node. Clones are the same pods.
#[derive(Clone)]
pub struct Pods(Arc<Inner>);

pub(crate) struct Inner {
    ground: Arc<Ground>,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    pods: BTreeMap<SandboxId, Pod>,
    keys: HashMap<SandboxKey, SandboxId>,
}

/// The way to one pod.
#[derive(Clone)]
struct Pod {
    mail: mpsc::Sender<Mail>,
    views: Views,
    key: SandboxKey,
}

/// A pod as found after a restart.
pub(crate) struct Restored {
    /// Its sandbox.
    pub(crate) sandbox: SandboxRecord,
    /// Its containers.
    pub(crate) containers: Vec<ContainerRecord>,
    /// Its shim, if that lives.
    pub(crate) shim: Option<Shim>,
}

/// The pods seen from an actor, which must not keep them alive.
#[derive(Clone)]
pub(crate) struct Backlink(Weak<Inner>);

impl Pods {
    /// No pods yet: [`crate::recovery::recover`] finds those of the last daemon.
    ///
    /// # Errors
    /// No thread could be made for the records.
    pub fn open(deps: Deps) -> Result<Self, Error> {
        let recorder = Recorder::start(deps.store.clone())?;
        let (clock, stats) = (Clock::default(), crate::stats::Cache::default());
        let ground = Arc::new(Ground {
            deps,
            recorder,
            clock,
            default_parent: Mutex::default(),
            attaching: Arc::default(),
            stats,
        });
        Ok(Self(Arc::new(Inner { ground, table: RwLock::default() })))
    }

    pub(crate) fn ground(&self) -> &Arc<Ground> {
        &self.0.ground
    }

    /// Waits until everything sent to the store is in it. Pods and their shims go on.
    pub async fn close(&self) {
        if let Err(error) = self.0.ground.save(Vec::new()).await {
            tracing::warn!(%error, "the last records could not be waited for");
        }
    }

    /// Makes, joins or finds the sandbox of a request.
    pub(crate) async fn run(&self, config: SandboxConfig, handler: &str) -> Result<SandboxId, Error> {
        loop {
            let pod = self.pod_of(&config, handler)?;
            match ask(&pod, Request::Run(Box::new(config.clone()))).await {
                Ok(Reply::Sandbox(id)) => return Ok(id),
                Ok(_) => return Err(Error::internal("run sandbox", "unexpected answer")),
                // That pod went away between look-up and mail: its key is free again.
                Err(Error::Closed) if pod.mail.is_closed() => tokio::task::yield_now().await,
                Err(error) => return Err(error),
            }
        }
    }

    fn pod_of(&self, config: &SandboxConfig, handler: &str) -> Result<Pod, Error> {
        let key = config.key(handler);
        let mut table = self.0.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(pod) = table.keys.get(&key).and_then(|id| table.pods.get(id)) {
            return Ok(pod.clone());
        }
        let id = SandboxId::generate().map_err(|error| Error::step("make an id", &error))?;
        let pod = self.spawn(Machine::new(id), id, key.clone(), None);
        table.keys.insert(key, id);
        table.pods.insert(id, pod.clone());
        Ok(pod)
    }

    fn spawn(&self, machine: Machine, id: SandboxId, key: SandboxKey, shim: Option<Shim>) -> Pod {
        let (mail, inbox) = mpsc::channel(MAILBOX);
        let views = Views::default();
        let backlink = Backlink(Arc::downgrade(&self.0));
        let seat = actor::Seat {
            id,
            handler: key.handler.clone(),
            ground: Arc::clone(&self.0.ground),
            mail: mail.clone(),
            views: views.clone(),
            backlink,
        };
        actor::start(seat, machine, inbox, shim);
        Pod { mail, views, key }
    }

    /// Takes in a pod of an earlier daemon.
    pub(crate) fn restore(&self, restored: Restored) {
        let Restored { sandbox, containers, shim } = restored;
        let clock = &self.0.ground.clock;
        clock.learn(clock_name(&sandbox.config), sandbox.created_at);
        for container in &containers {
            clock.learn(container_clock_name(&sandbox.config, &container.config.name), container.created_at);
        }
        let (id, key) = (sandbox.id, sandbox.config.key(&sandbox.handler));
        let pod = self.spawn(Machine::restore(sandbox, containers), id, key.clone(), shim);
        let mut table = self.0.table.write().unwrap_or_else(PoisonError::into_inner);
        table.keys.insert(key, id);
        table.pods.insert(id, pod);
    }

    /// The sandbox that an id, or the beginning of one, names.
    ///
    /// # Errors
    /// None, or several.
    pub fn find_sandbox(&self, text: &str) -> Result<SandboxId, Error> {
        let table = self.0.table.read().unwrap_or_else(PoisonError::into_inner);
        lookup(text, table.pods.keys().copied()).map_err(|error| Noun::Sandbox.missing(error))
    }

    /// The container that an id, or the beginning of one, names, and its pod.
    ///
    /// # Errors
    /// None, or several.
    pub fn find_container(&self, text: &str) -> Result<(SandboxId, ContainerId), Error> {
        let views = self.views();
        let all = views.iter().flat_map(|view| view.containers.values());
        let pods: HashMap<ContainerId, SandboxId> = all.map(|record| (record.id, record.sandbox)).collect();
        let id = lookup(text, pods.keys().copied()).map_err(|error| Noun::Container.missing(error))?;
        pods.get(&id).map(|sandbox| (*sandbox, id)).ok_or_else(|| Error::NoContainer(text.to_owned()))
    }

    /// The latest view of one pod.
    #[must_use]
    pub fn view(&self, id: SandboxId) -> Option<Arc<PodView>> {
        let table = self.0.table.read().unwrap_or_else(PoisonError::into_inner);
        table.pods.get(&id).map(|pod| pod.views.latest())
    }

    /// The latest views of all pods, by id.
    #[must_use]
    pub fn views(&self) -> Vec<Arc<PodView>> {
        let table = self.0.table.read().unwrap_or_else(PoisonError::into_inner);
        table.pods.values().map(|pod| pod.views.latest()).collect()
    }

    /// Asks a pod. A pod that is gone has nothing left: whoever asks decides what that means.
    pub(crate) async fn ask(&self, id: SandboxId, request: Request) -> Result<Reply, Error> {
        let pod = {
            let table = self.0.table.read().unwrap_or_else(PoisonError::into_inner);
            table.pods.get(&id).cloned()
        };
        let gone = || Error::NoSandbox(id.to_string());
        match ask(&pod.ok_or_else(gone)?, request).await {
            // It ended while it was asked.
            Err(Error::Closed) if self.view(id).is_none() => Err(gone()),
            answer => answer,
        }
    }

    /// A container that is to be made in a pod, with its id and time.
    pub(crate) fn draft(&self, sandbox: &SandboxConfig, config: ContainerConfig) -> Result<Draft, Error> {
        let id = ContainerId::generate().map_err(|error| Error::step("make an id", &error))?;
        let created_at = self.0.ground.clock.stamp(container_clock_name(sandbox, &config.name));
        Ok(Draft { id, created_at, config: Arc::new(config) })
    }
}

impl Backlink {
    /// Forgets a pod that is gone; its key is free again.
    pub(crate) fn forget(&self, id: SandboxId) {
        let Some(inner) = self.0.upgrade() else { return };
        let mut table = inner.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(pod) = table.pods.remove(&id)
            && table.keys.get(&pod.key) == Some(&id)
        {
            table.keys.remove(&pod.key);
        }
    }
}

async fn ask(pod: &Pod, request: Request) -> Result<Reply, Error> {
    let (answer, end) = oneshot::channel();
    pod.mail.send(Mail::Ask(request, answer)).await.map_err(|_| Error::Closed)?;
    end.await.map_err(|_| Error::Closed)?
}

/// The name under which a sandbox's times rise.
fn clock_name(config: &SandboxConfig) -> String {
    format!("{}/{}", config.namespace, config.name)
}

fn container_clock_name(config: &SandboxConfig, container: &str) -> String {
    format!("{}/{}/{container}", config.namespace, config.name)
}

/// A time for a new sandbox.
pub(crate) fn stamp(ground: &Ground, config: &SandboxConfig) -> Timestamp {
    ground.clock.stamp(clock_name(config))
}
