//! ExecSync: a program in the container, its output and its code.

mod run;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use berth_proto::shim as wire;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::container::Container;
use crate::error::{CallError, Step};
use crate::io::capture::Capture;
use crate::pod::Pod;
use run::Launch;

/// When the program has ended, whoever else holds its output is waited for no longer than this.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Bytes kept of each stream when the request does not say.
const CAP_DEFAULT: u64 = 16 << 20;

/// Bytes kept of both streams: they have to fit one frame, with room for the rest of the answer.
const BUDGET: usize = wire::FRAME_MAX - (1 << 20);

/// Runs a program in a container and waits for it. A program that could not be started is an error, never a code.
pub(crate) async fn exec_sync(
    pod: Arc<Pod>,
    request: wire::ExecSyncRequest,
) -> Result<wire::ExecSyncResponse, CallError> {
    let container = pod.containers.find(&request.id)?;
    container.require_running()?;
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(CallError::request("argv", "names no program"));
    }
    // A task of its own: the program is waited for and its tree killed in time even if the connection goes.
    let work = tokio::spawn(answer(pod, container, request));
    work.await.unwrap_or_else(|error| Err(CallError::Panicked(error.to_string())))
}

async fn answer(
    pod: Arc<Pod>,
    container: Arc<Container>,
    request: wire::ExecSyncRequest,
) -> Result<wire::ExecSyncResponse, CallError> {
    let _slot = pod.exec_slots.clone().try_acquire_owned().map_err(|_| CallError::Busy)?;
    let cap = if request.output_cap == 0 { CAP_DEFAULT } else { request.output_cap };
    let cap = usize::try_from(cap).unwrap_or(BUDGET);
    let pipe = || pipe_with(PipeFlags::CLOEXEC).step(|| "make a pipe".to_owned());
    let (out, out_end) = pipe()?;
    let (err, err_end) = pipe()?;
    let input = OwnedFd::from(File::open("/dev/null").step(|| "open /dev/null".to_owned())?);
    let budget = Arc::new(AtomicUsize::new(BUDGET));
    let capture = |fd| Capture::start(fd, cap, budget.clone()).step(|| "watch the output".to_owned());
    let (mut stdout, mut stderr) = (capture(out)?, capture(err)?);
    let limit = u64::try_from(request.timeout_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
    let launch = Launch { argv: request.argv, stdio: [input, out_end, err_end] };
    let (code, timed_out) = run::to_the_end(&pod, &container, launch, limit).await?;
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
