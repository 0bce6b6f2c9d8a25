//! ExecSync: a program in the container, its output and its code.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use berth_proto::shim as wire;
use berth_runtime::{Created, Exec, ExecArgs, ExecProgram, Stdio};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::blocking;
use crate::container::Container;
use crate::error::{CallError, Step};
use crate::io::capture::Capture;
use crate::pod::Pod;
use crate::task::kill_group::KillGroup;
use crate::tree;

/// When the program has ended, whoever else holds its output is waited for no longer than this.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Bytes kept of each stream when the request does not say.
const CAP_DEFAULT: u64 = 16 << 20;

/// Both streams together have to fit one frame, with room for the rest of the answer.
const CAP_MAX: usize = (wire::FRAME_MAX - (1 << 20)) / 2;

/// Runs a program in a container and waits for it. A program that could not be started is an error, never a code.
pub(crate) async fn exec_sync(
    pod: Arc<Pod>,
    request: wire::ExecSyncRequest,
) -> Result<wire::ExecSyncResponse, CallError> {
    let container = pod.find(&request.id)?;
    container.require_running()?;
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(CallError::request("argv", "names no program"));
    }
    // A task of its own: the program is waited for and its tree killed in time even if the connection goes.
    let work = tokio::spawn(run(pod, container, request));
    work.await.unwrap_or_else(|error| Err(CallError::Panicked(error.to_string())))
}

async fn run(
    pod: Arc<Pod>,
    container: Arc<Container>,
    request: wire::ExecSyncRequest,
) -> Result<wire::ExecSyncResponse, CallError> {
    let cap = if request.output_cap == 0 { CAP_DEFAULT } else { request.output_cap };
    let cap = usize::try_from(cap).unwrap_or(CAP_MAX).min(CAP_MAX);
    let pipe = || pipe_with(PipeFlags::CLOEXEC).step(|| "make a pipe".to_owned());
    let (out, out_end) = pipe()?;
    let (err, err_end) = pipe()?;
    let input = OwnedFd::from(File::open("/dev/null").step(|| "open /dev/null".to_owned())?);
    let capture = |fd| Capture::start(fd, cap).step(|| "watch the output".to_owned());
    let (mut stdout, mut stderr) = (capture(out)?, capture(err)?);
    let limit = u64::try_from(request.timeout_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
    let busy = pod.reaper.busy();
    let launch = Launch { argv: request.argv, stdio: [input, out_end, err_end], killable: limit.is_some() };
    let running = launch.go(&pod, &container).await?;
    pod.reaper.adopt(running.exec.pid);
    drop(busy);
    let (code, timed_out) = running.wait(&pod, &container, limit).await;
    let both = async { tokio::join!(stdout.ended(), stderr.ended()) };
    let _held_by_others = tokio::time::timeout(DRAIN_MAX, both).await;
    let (stdout, stderr) = (stdout.take(), stderr.take());
    Ok(wire::ExecSyncResponse {
        exit_code: code.into(),
        truncated: stdout.truncated || stderr.truncated,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        timed_out,
    })
}

/// What is to be run.
struct Launch {
    argv: Vec<String>,
    stdio: [OwnedFd; 3],
    /// It has a time-out, after which it is killed with all it has started.
    killable: bool,
}

/// What runs.
struct Running {
    exec: Exec,
    group: Option<KillGroup>,
}

impl Launch {
    async fn go(self, pod: &Arc<Pod>, container: &Arc<Container>) -> Result<Running, CallError> {
        let built = container.built.clone().read_owned().await;
        let exe = pod.exe.clone();
        blocking::run(move || self.exec(&built, &exe)).await
    }

    fn exec(self, built: &Created, exe: &OwnedFd) -> Result<Running, CallError> {
        let made = if self.killable { KillGroup::make(built) } else { None };
        let (group, directory) = made.unzip();
        let result = berth_runtime::exec(&ExecArgs {
            context: &built.context,
            pid: built.pid,
            pidfd: &built.pidfd,
            cgroup: &built.cgroup,
            kill_group: directory,
            program: ExecProgram::Argv(self.argv),
            stdio: Stdio::Fds(self.stdio),
            preserved: Vec::new(),
            exe,
        });
        match result {
            Ok(exec) => Ok(Running { exec, group }),
            Err(error) => {
                if let Some(group) = group {
                    group.remove();
                }
                Err(error.into())
            }
        }
    }
}

impl Running {
    /// The program's code, and whether it had to be killed with all it had started.
    async fn wait(self, pod: &Pod, container: &Container, limit: Option<Duration>) -> (u8, bool) {
        let mut ended = std::pin::pin!(pod.reaper.wait(self.exec.pid, &self.exec.pidfd));
        let Some(limit) = limit else { return (ended.await.code(), false) };
        let in_time = tokio::time::timeout(limit, &mut ended).await;
        let timed_out = in_time.is_err();
        if timed_out && let Err(error) = self.kill_tree(container).await {
            crate::say!("exec {} of container {} is over its time: {error}", self.exec.pid, container.id);
        }
        let code = match in_time {
            Ok(ended) => ended.code(),
            Err(_) => ended.await.code(),
        };
        if let Some(group) = self.group {
            let remove = move || {
                group.remove();
                Ok(())
            };
            let _left = blocking::run(remove).await;
        }
        (code, timed_out)
    }

    async fn kill_tree(&self, container: &Container) -> Result<(), CallError> {
        if let Some(group) = &self.group {
            group.kill();
        }
        let built = container.built.clone().read_owned().await;
        let (pid, pidfd) = (self.exec.pid, self.exec.pidfd.try_clone().step(|| "copy a handle".to_owned())?);
        blocking::run(move || {
            tree::kill(pid, &pidfd, || built.cgroup.procs().unwrap_or_default());
            Ok(())
        })
        .await
    }
}
