//! One container of the pod: what was built, what it is now, and the watch over its end.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_cgroup::{Cgroup, CgroupError, CgroupPath};
use berth_core::Timestamp;
use berth_core::oci::{LinuxNamespace, LinuxNamespaceType, Spec};
use berth_runtime::{Created, ResolvedUser};
use tokio::sync::{RwLock, watch};

use crate::blocking;
use crate::error::CallError;
use crate::io::pump::Output;
use crate::journal::Fact;
use crate::oom::OomCounter;
use crate::phase::Phase;
use crate::pod::Pod;
use crate::task::kill_group::KillGroup;

/// After the first process has ended, whoever else holds its output is waited for no longer than this.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// After the first process has ended, a start under way is waited for no longer than this.
const START_MAX: Duration = Duration::from_secs(2);

const SIGKILL: i32 = 9;

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
    cgroup_path: CgroupPath,
    owns_pid_namespace: bool,
    leftover_groups: Mutex<Vec<KillGroup>>,
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
            cgroup_path: parts.built.cgroup.path().clone(),
            owns_pid_namespace: owns_pid_namespace(&parts.built.context.spec),
            leftover_groups: Mutex::default(),
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

    /// Kills every process of its cgroup, and its first one wherever that has moved to.
    pub(crate) async fn kill_all(&self, pod: &Pod) -> Result<(), CallError> {
        let _gone = berth_sys::pidfd::send_signal(&self.pidfd, SIGKILL);
        self.signal_all(pod, SIGKILL).await
    }

    /// Signals every process of its cgroup. Waits for nobody: while a start hangs the group is opened anew.
    pub(crate) async fn signal_all(&self, pod: &Pod, signal: i32) -> Result<(), CallError> {
        if let Ok(built) = self.built.clone().try_read_owned() {
            return blocking::run(move || Ok(berth_runtime::kill_all(&built.cgroup, signal)?)).await;
        }
        let (hierarchies, path) = (pod.hierarchies.clone(), self.cgroup_path.clone());
        let signal_opened = move || match Cgroup::open(&hierarchies, &path) {
            Ok(cgroup) => Ok(berth_runtime::kill_all(&cgroup, signal)?),
            Err(CgroupError::NotFound { .. }) => Ok(()),
            Err(error) => Err(berth_runtime::Error::from(error).into()),
        };
        blocking::run(signal_opened).await
    }

    /// Execs of it whose leftovers were still alive when they ended.
    pub(crate) fn leftover_groups(&self) -> MutexGuard<'_, Vec<KillGroup>> {
        self.leftover_groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a container to its end: reaps it, kills what it leaves behind, lets its last output reach the log, counts
/// kills for lack of memory once more, records the exit, and only then tells.
pub(crate) async fn watch_to_the_end(pod: Arc<Pod>, container: Arc<Container>) {
    let ended = pod.reaper.wait(container.pid, &container.pidfd).await;
    let at = Timestamp::now();
    // At once, too: systemd removes the group with its last process, and the counter with it.
    container.oom.look(&pod, &container);
    if !container.owns_pid_namespace
        && let Err(error) = container.kill_all(&pod).await
    {
        // The next attempt of the same program would meet its ports and files in use.
        crate::say!("container {}: kill what it left behind: {error}", container.id);
    }
    container.output.drain(DRAIN_MAX).await;
    // A start under way has the first word on how it went; one that hangs in a hook does not hold the news back.
    let turn = tokio::time::timeout(START_MAX, container.turn.lock()).await;
    let oom_kills = container.oom.look(&pod, &container);
    let phase = container.phase().clone().ended(ended.code(), at, oom_kills);
    if let Phase::Stopped { exit, .. } = &phase {
        pod.journal.record(&container.id, exit.at, Fact::Exit(exit.clone()));
    }
    *container.phase() = phase;
    container.stopped.send_replace(true);
    drop(turn);
}

/// Whether the kernel kills all of a container's processes with its first one.
pub(crate) fn owns_pid_namespace(spec: &Spec) -> bool {
    let namespaces = spec.linux().as_ref().and_then(|linux| linux.namespaces().as_ref());
    let new =
        |namespace: &LinuxNamespace| namespace.typ() == LinuxNamespaceType::Pid && namespace.path().is_none();
    namespaces.is_some_and(|namespaces| namespaces.iter().any(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_pid_namespace_dies_with_its_first_process() {
        let spec = |namespaces: &str| -> Spec {
            serde_json::from_str(&format!(
                r#"{{"ociVersion":"1.2.0","linux":{{"namespaces":[{namespaces}]}}}}"#
            ))
            .unwrap()
        };
        assert!(owns_pid_namespace(&spec(r#"{"type":"mount"},{"type":"pid"}"#)));
        assert!(!owns_pid_namespace(&spec(r#"{"type":"pid","path":"/proc/7/fd/9"}"#)));
        assert!(!owns_pid_namespace(&spec(r#"{"type":"mount"}"#)));
    }
}
