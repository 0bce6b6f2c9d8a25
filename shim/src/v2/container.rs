//! One container of this shim: its processes, its cgroup, and the watch over their ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::Timestamp;
use berth_core::oci::Process as Program;
use berth_proto::containerd as wire;
use berth_runtime::Created;
use tokio::sync::RwLock;

use super::process::Process;
use super::record::Ended;
use super::serve;
use super::shim::Shim;
use super::stdio::Owner;
use crate::blocking;
use crate::container::owns_pid_namespace;
use crate::error::CallError;

/// After the first process has ended, execs are waited for no longer than this: their ends are told before its own.
const EXECS_MAX: Duration = Duration::from_secs(5);

/// After an end, a start under way is waited for no longer than this.
const START_MAX: Duration = Duration::from_secs(2);

/// An exec: its process, and what it is to run until it is started.
#[derive(Debug)]
pub(super) struct Exec {
    pub(super) process: Arc<Process>,
    pub(super) program: Mutex<Option<Box<Program>>>,
}

/// One container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) bundle: PathBuf,
    pub(super) first: Arc<Process>,
    /// Of the pipes of its processes.
    pub(super) io_owner: Owner,
    /// Written by start alone.
    pub(super) built: Arc<RwLock<Created>>,
    owns_pid_namespace: bool,
    oom_kills: AtomicU64,
    execs: Mutex<BTreeMap<String, Arc<Exec>>>,
}

impl Container {
    /// One that was just built.
    pub(super) fn new(bundle: PathBuf, first: Arc<Process>, built: Created, io_owner: Owner) -> Container {
        Container {
            id: built.id.clone(),
            bundle,
            first,
            io_owner,
            owns_pid_namespace: owns_pid_namespace(&built.context.spec),
            built: Arc::new(RwLock::new(built)),
            oom_kills: AtomicU64::new(0),
            execs: Mutex::default(),
        }
    }

    /// Its execs, by id.
    pub(super) fn execs(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Exec>>> {
        self.execs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An exec.
    pub(super) fn exec(&self, exec_id: &str) -> Result<Arc<Exec>, CallError> {
        let unknown = || CallError::Unknown(format!("{}, exec {exec_id}", self.id));
        self.execs().get(exec_id).cloned().ok_or_else(unknown)
    }

    /// The first process, or that of an exec.
    pub(super) fn process(&self, exec_id: &str) -> Result<Arc<Process>, CallError> {
        match exec_id {
            "" => Ok(self.first.clone()),
            exec => self.exec(exec).map(|exec| exec.process.clone()),
        }
    }

    /// Signals every process of the cgroup.
    pub(super) async fn signal_all(&self, signal: i32) -> Result<(), CallError> {
        let built = self.built.clone().read_owned().await;
        blocking::run(move || Ok(berth_runtime::kill_all(&built.cgroup, signal)?)).await
    }

    /// Tells of kills for lack of memory that were not told of yet.
    pub(super) fn look_for_oom(&self, shim: &Shim) {
        let Ok(built) = self.built.try_read() else { return };
        let kills = built.cgroup.oom_kills().unwrap_or(0);
        if self.oom_kills.fetch_max(kills, Ordering::Relaxed) < kills {
            shim.events.oom(&self.id);
        }
    }

    /// Execs are gone before the first process's end is told, and so is whatever else it leaves behind.
    async fn outlive_others(&self) {
        if !self.owns_pid_namespace
            && let Err(error) = self.signal_all(9).await
        {
            crate::say!("container {}: kill what it left behind: {error}", self.id);
        }
        let others: Vec<_> = self.execs().values().map(|exec| exec.process.clone()).collect();
        let all = async {
            for other in others.into_iter().filter(|other| other.handles.get().is_some()) {
                other.stopped().await;
            }
        };
        let _one_hangs = tokio::time::timeout(EXECS_MAX, all).await;
    }
}

/// Watches the kernel's counter of kills for lack of memory until the container has ended.
pub(super) async fn watch_memory(shim: &Arc<Shim>, container: &Arc<Container>) {
    let watch = match container.built.read().await.cgroup.oom_watch() {
        Ok(Some(watch)) => Ok(watch),
        Ok(None) => return,
        Err(error) => Err(error.to_string()),
    };
    let (at_end, looking) = (container.first.clone(), (shim.clone(), container.clone()));
    let followed = watch.and_then(|watch| {
        let look = move || looking.1.look_for_oom(&looking.0);
        crate::oom::follow(watch, look, async move { at_end.stopped().await }).map_err(|e| e.to_string())
    });
    if let Err(error) = followed {
        crate::say!("container {}: kills for lack of memory are told at its end only: {error}", container.id);
    }
}

/// Watches a process to its end, records it and tells of it.
pub(super) async fn watch_to_the_end(shim: Arc<Shim>, container: Arc<Container>, process: Arc<Process>) {
    let Some(handles) = process.handles.get() else { return };
    let pid = process.life().pid();
    let ended = shim.reaper.wait(i32::try_from(pid).unwrap_or_default(), &handles.pidfd).await;
    let (code, at) = (ended.code(), Timestamp::now());
    let is_first = process.exec_id.is_empty();
    if is_first {
        // At once: systemd removes the group with its last process, and the counter with it.
        container.look_for_oom(&shim);
        container.outlive_others().await;
    }
    let turn = tokio::time::timeout(START_MAX, process.turn.lock()).await;
    if is_first {
        container.look_for_oom(&shim);
        if let Err(error) = (Ended { code, at }).save(&container.bundle) {
            crate::say!("container {}: record its end: {error}", container.id);
        }
    }
    shim.events.exit(wire::TaskExit {
        container_id: container.id.clone(),
        id: if is_first { container.id.clone() } else { process.exec_id.clone() },
        pid,
        exit_status: code.into(),
        exited_at: Some(serve::time(at)),
    });
    process.end(code, at);
    drop(turn);
}
