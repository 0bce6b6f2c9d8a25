//! One worker, seen from the daemon.

use super::limits::Limits;
use super::report::{Failure, Report};
use super::wire::{self, Request, Source};
use berth_snapshot::digest::Algorithm;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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

/// A worker under way.
#[derive(Debug)]
pub struct Job {
    child: Child,
    socket: UnixStream,
}

impl Job {
    /// Starts a worker that applies what `data` brings into `dir/fs`. Blocks for the time of one exec.
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
        let (socket, theirs) = UnixStream::pair().map_err(fail)?;
        let child = Command::new(&command.program)
            .args(&command.args)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        let job = Self { child, socket };
        let request = Request { sha512: algorithm == Algorithm::Sha512, limits, source };
        // A worker that dies at once is reported by `wait`, with what it said.
        let _ = wire::send_request(&job.socket, &request, dir.as_fd(), data.as_fd());
        Ok(job)
    }

    /// A second handle of the socket, on which counts of readable bytes are sent for a spooled layer.
    ///
    /// # Errors
    /// When handles have run out.
    pub fn socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Waits for the answer and for the end of the process. Blocks.
    ///
    /// # Errors
    /// The worker's failure, or that it died.
    pub fn wait(mut self) -> Result<Report, JobError> {
        let answer = wire::receive_answer(&self.socket);
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let status = self.child.wait();
        match answer {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                let said = said.trim();
                let said = if said.is_empty() { String::new() } else { format!(": {said}") };
                Err(JobError::Died { status, said })
            }
        }
    }
}
