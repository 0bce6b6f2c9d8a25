//! One container of the pod: what was built, what it is now, and the watch over its end.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::Timestamp;
use berth_runtime::{Created, ResolvedUser};
use tokio::sync::{RwLock, watch};

use crate::error::CallError;
use crate::io::pump::Output;
use crate::journal::Fact;
use crate::oom::OomCounter;
use crate::phase::Phase;
use crate::pod::Pod;

/// After the first process has ended, whoever else holds its output is waited for no longer than this.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// One container.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) created_at: Timestamp,
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) user: ResolvedUser,
    /// Written by start alone; read by whoever needs the cgroup or what an exec inherits.
    pub(crate) built: Arc<RwLock<Created>>,
    pub(crate) output: Output,
    /// Kept open so that a program that reads waits instead of meeting the end of its input.
    pub(crate) _stdin: Option<OwnedFd>,
    pub(crate) oom: OomCounter,
    /// Start and delete take turns; the watch waits for a start under way before it tells of the end.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    phase: Mutex<Phase>,
    stopped: watch::Sender<bool>,
}

/// What a new container is made of.
pub(crate) struct Parts {
    pub(crate) built: Created,
    pub(crate) pidfd: OwnedFd,
    pub(crate) output: Output,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) oom: OomCounter,
}

impl Container {
    /// A container that was just built.
    pub(crate) fn new(parts: Parts) -> Container {
        Container {
            id: parts.built.id.clone(),
            created_at: Timestamp::now(),
            pid: parts.built.pid,
            pidfd: parts.pidfd,
            user: parts.built.user.clone(),
            built: Arc::new(RwLock::new(parts.built)),
            output: parts.output,
            _stdin: parts.stdin,
            oom: parts.oom,
            turn: Arc::default(),
            phase: Mutex::new(Phase::Created),
            stopped: watch::Sender::new(false),
        }
    }

    /// What it is now.
    pub(crate) fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses unless its program runs.
    pub(crate) fn require_running(&self) -> Result<(), CallError> {
        match &*self.phase() {
            Phase::Running { .. } => Ok(()),
            other => Err(self.refusal(other, "it must be running")),
        }
    }

    /// A refusal for the state it is in.
    pub(crate) fn refusal(&self, phase: &Phase, needs: &'static str) -> CallError {
        CallError::State { id: self.id.clone(), state: phase.name(), needs }
    }

    /// Waits until its end has been recorded.
    pub(crate) async fn stopped(&self) {
        let mut stopped = self.stopped.subscribe();
        let _told = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Waits until its end has been recorded, but not for ever.
    pub(crate) async fn until_stopped(&self, limit: Duration) -> Result<(), CallError> {
        let told = tokio::time::timeout(limit, self.stopped()).await;
        told.map_err(|_| CallError::Hangs(self.id.clone()))
    }

    /// Kills every process of its cgroup and its first one.
    pub(crate) async fn kill_all(&self) -> Result<(), CallError> {
        let built = self.built.clone().read_owned().await;
        crate::blocking::run(move || Ok(berth_runtime::kill_all(&built.cgroup, 9)?)).await
    }
}

/// Watches a container to its end: reaps it, lets its last output reach the log, counts kills once more, records
/// the exit, and only then tells.
pub(crate) async fn watch_to_the_end(pod: Arc<Pod>, container: Arc<Container>) {
    let ended = pod.reaper.wait(container.pid, &container.pidfd).await;
    let at = Timestamp::now();
    container.output.drain(DRAIN_MAX).await;
    let turn = container.turn.lock().await;
    let oom_kills = container.oom.look(&pod, &container).await;
    let phase = container.phase().clone().ended(ended.code(), at, oom_kills);
    if let Phase::Stopped { exit, .. } = &phase {
        pod.journal.record(&container.id, exit.at, Fact::Exit(exit.clone()));
    }
    *container.phase() = phase;
    container.stopped.send_replace(true);
    drop(turn);
}
