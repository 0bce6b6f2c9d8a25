//! One worker, seen from the daemon.

use super::limits::Limits;
use super::report::{Failure, Report};
use super::wire::{self, Request, Source};
use berth_snapshot::digest::Algorithm;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// How long a worker may take to end after its answer, or after it closed the socket without one.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// How to start a worker: this program again, by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program, or a path that leads to it through a handle.
    pub program: PathBuf,
    /// Arguments that make it a worker.
    pub args: Vec<OsString>,
}

impl Default for WorkerCommand {
    fn default() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), args: vec![OsString::from("unpack")] }
    }
}

/// A failure around a worker.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It could not be started.
    #[error("start the unpack worker {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It died before it answered.
    #[error("the unpack worker ended without an answer ({status}){said}")]
    Died {
        /// How it ended.
        status: String,
        /// The end of what it said on standard error.
        said: String,
    },
    /// It answered that the layer cannot be applied.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A worker under way. Dropped, it is killed.
#[derive(Debug)]
pub struct Job {
    child: Child,
    socket: Arc<UnixStream>,
}

/// An answer as it came over the socket: up to tens of megabytes, not to be read in an async thread.
#[derive(Debug)]
pub struct RawAnswer(Vec<u8>);

impl RawAnswer {
    /// Reads it, and holds it against the limits once more: the worker has read a stranger's bytes.
    ///
    /// # Errors
    /// The worker's failure, or nonsense.
    pub fn read(&self, limits: &Limits) -> Result<Report, JobError> {
        match wire::parse_answer(&self.0) {
            Ok(answer) => {
                let report = answer?;
                report.within(limits)?;
                Ok(report)
            }
            Err(error) => {
                Err(JobError::Died { status: "it answered nonsense".into(), said: format!(": {error}") })
            }
        }
    }
}

impl Job {
    /// Starts a worker that applies what `data` brings into `dir/fs`. Blocks for the time of one exec; needs the
    /// context of a tokio runtime.
    ///
    /// # Errors
    /// [`JobError::Start`].
    pub fn start(
        command: &WorkerCommand,
        dir: OwnedFd,
        data: OwnedFd,
        source: Source,
        algorithm: Algorithm,
        limits: Limits,
    ) -> Result<Self, JobError> {
        let fail = |source| JobError::Start { program: command.program.clone(), source };
        let (socket, theirs) = std::os::unix::net::UnixStream::pair().map_err(fail)?;
        let child = Command::new(&command.program)
            .args(&command.args)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        let request = Request { sha512: algorithm == Algorithm::Sha512, limits, source };
        // A worker that dies at once is reported by `wait`, with what it said.
        let _ = wire::send_request(&socket, &request, dir.as_fd(), data.as_fd());
        socket.set_nonblocking(true).map_err(fail)?;
        let socket = Arc::new(UnixStream::from_std(socket).map_err(fail)?);
        Ok(Self { child, socket })
    }

    /// The socket, on which counts of readable bytes are sent for a spooled layer. As long as one of these handles is
    /// open the worker sees no end: whoever has sent the last count shuts the writing side down.
    #[must_use]
    pub fn socket(&self) -> Arc<UnixStream> {
        Arc::clone(&self.socket)
    }

    /// The worker's process id, for whoever wants to look at it.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the answer and for the end of the process. When `stop` fires the process is killed.
    ///
    /// # Errors
    /// That it died.
    pub async fn wait(mut self, stop: &CancellationToken) -> Result<RawAnswer, JobError> {
        let answer = tokio::select! {
            () = stop.cancelled() => None,
            answer = wire::receive_answer(&self.socket) => {
                // It is done, and gets the time to end by itself, so that its own exit code is seen.
                let _ = tokio::time::timeout(LAST_MOMENT, self.child.wait()).await;
                answer.ok()
            }
        };
        let _ = self.child.start_kill();
        let status = self.child.wait().await;
        if let Some(answer) = answer {
            return Ok(RawAnswer(answer));
        }
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(JobError::Died { status, said: self.said().await })
    }

    /// What it said on standard error, cut. The process is gone, so that all of it is in the pipe.
    async fn said(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(4096);
            let _ = tokio::time::timeout(Duration::from_secs(1), stderr.read_to_end(&mut said)).await;
        }
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        if said.is_empty() { String::new() } else { format!(": {said}") }
    }
}
