//! A program in a container from its launch to its end, in time or not.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use berth_runtime::{Created, Exec, ExecArgs, ExecProgram, Stdio};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::blocking;
use crate::container::Container;
use crate::error::{CallError, Step};
use crate::pod::Pod;
use crate::task::kill_group::KillGroup;
use crate::tree;

/// The code of a program that was killed.
const KILLED: u8 = 137;

/// What is to be run.
pub(super) struct Launch {
    pub(super) argv: Vec<String>,
    pub(super) stdio: [OwnedFd; 3],
}

/// Runs it. Gives the program's code, and whether it had to be killed with all it had started. The time counts from
/// here: a launch may hang in a frozen group or on a dead file system.
pub(super) async fn to_the_end(
    pod: &Arc<Pod>,
    container: &Arc<Container>,
    launch: Launch,
    limit: Option<Duration>,
) -> Result<(u8, bool), CallError> {
    let Some(limit) = limit else {
        let exec = launching(pod, container, launch, None).await.map_err(panicked)??;
        return Ok((pod.reaper.wait(exec.pid, &exec.pidfd).await.code(), false));
    };
    let deadline = Instant::now() + limit;
    let (group, directory) = make_group(container).await?;
    let mut launching = launching(pod, container, launch, directory);
    let exec = match timeout_at(deadline, &mut launching).await {
        Ok(Ok(Ok(exec))) => exec,
        Ok(Ok(Err(error))) => {
            remove_group(container, group).await;
            return Err(error);
        }
        Ok(Err(error)) => return Err(panicked(error)),
        Err(_) => {
            give_up(pod, container, launching, group);
            return Ok((KILLED, true));
        }
    };
    let mut ended = std::pin::pin!(pod.reaper.wait(exec.pid, &exec.pidfd));
    let in_time = timeout_at(deadline, &mut ended).await;
    let timed_out = in_time.is_err();
    if timed_out && let Err(error) = kill_tree(container, &exec, group.as_ref()).await {
        crate::say!("exec {} of container {} is over its time: {error}", exec.pid, container.id);
    }
    let ended = match in_time {
        Ok(ended) => ended,
        Err(_) => ended.await,
    };
    remove_group(container, group).await;
    Ok((ended.code(), timed_out))
}

/// Launches on a thread; the task goes on until the program runs, whoever waits.
fn launching(
    pod: &Arc<Pod>,
    container: &Arc<Container>,
    launch: Launch,
    kill_group: Option<OwnedFd>,
) -> JoinHandle<Result<Exec, CallError>> {
    let (pod, container) = (pod.clone(), container.clone());
    tokio::spawn(async move {
        let _busy = pod.reaper.busy();
        let built = container.built.clone().read_owned().await;
        let exe = pod.exe.clone();
        let exec = blocking::run(move || Ok(launch.exec(&built, &exe, kill_group)?)).await?;
        pod.reaper.adopt(exec.pid);
        Ok(exec)
    })
}

impl Launch {
    fn exec(
        self,
        built: &Created,
        exe: &OwnedFd,
        kill_group: Option<OwnedFd>,
    ) -> Result<Exec, berth_runtime::Error> {
        berth_runtime::exec(&ExecArgs {
            context: &built.context,
            pid: built.pid,
            pidfd: &built.pidfd,
            cgroup: &built.cgroup,
            places: None,
            kill_group,
            program: ExecProgram::Argv(self.argv),
            stdio: Stdio::Fds(self.stdio),
            preserved: Vec::new(),
            exe,
        })
    }
}

/// The launch hangs. What there is of it is killed now, and the program at once should it begin to run after all.
fn give_up(
    pod: &Arc<Pod>,
    container: &Arc<Container>,
    launching: JoinHandle<Result<Exec, CallError>>,
    group: Option<KillGroup>,
) {
    if let Some(group) = &group {
        group.kill();
    }
    crate::say!("container {}: an exec is over its time before its program runs", container.id);
    let (pod, container) = (pod.clone(), container.clone());
    crate::background::spawn(async move {
        if let Ok(Ok(exec)) = launching.await {
            let _gone = kill_tree(&container, &exec, group.as_ref()).await;
            pod.reaper.wait(exec.pid, &exec.pidfd).await;
        }
        remove_group(&container, group).await;
    });
}

async fn kill_tree(container: &Container, exec: &Exec, group: Option<&KillGroup>) -> Result<(), CallError> {
    if let Some(group) = group {
        group.kill();
    }
    let built = container.built.clone().read_owned().await;
    let (pid, pidfd) = (exec.pid, exec.pidfd.try_clone().step(|| "copy a handle".to_owned())?);
    blocking::run(move || {
        tree::kill(pid, &pidfd, || built.cgroup.procs().unwrap_or_default());
        Ok(())
    })
    .await
}

/// Makes a group, and removes those of earlier execs whose last process has ended by now.
async fn make_group(container: &Arc<Container>) -> Result<(Option<KillGroup>, Option<OwnedFd>), CallError> {
    let built = container.built.clone().read_owned().await;
    let container = container.clone();
    blocking::run(move || {
        container.leftover_groups().retain(|group| !group.remove());
        Ok(KillGroup::make(&built).unzip())
    })
    .await
}

async fn remove_group(container: &Arc<Container>, group: Option<KillGroup>) {
    let Some(group) = group else { return };
    let container = container.clone();
    let remove = move || {
        if !group.remove() {
            container.leftover_groups().push(group);
        }
        Ok(())
    };
    let _panicked = blocking::run(remove).await;
}

fn panicked(error: tokio::task::JoinError) -> CallError {
    CallError::Panicked(error.to_string())
}
