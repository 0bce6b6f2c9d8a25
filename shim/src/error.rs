//! Why a call of the daemon's was refused or failed, and its code on the wire.

use std::io;

use berth_proto::ttrpc::{Code, Status};

/// A call that did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// No container of that id.
    #[error("container {0} is not known to this shim")]
    Unknown(String),
    /// The id is taken.
    #[error("container {0} exists already")]
    Exists(String),
    /// The container is not in the state the call needs.
    #[error("container {id} is {state}: {needs}")]
    State {
        /// The container.
        id: String,
        /// What it is.
        state: &'static str,
        /// What the call needs.
        needs: &'static str,
    },
    /// There is no process to signal any more.
    #[error("{0} has ended: process already finished")]
    Ended(String),
    /// What this shim does not do.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// Shutdown was called.
    #[error("the shim is ending: it takes no new container")]
    Ending,
    /// Too many execs at once.
    #[error("too many execs at once in this pod: try again")]
    Busy,
    /// A container is being built and does not come to an end.
    #[error("a container is still being built: its set-up hangs in the kernel; try again")]
    Building,
    /// A field of the request.
    #[error("{field}: {reason}")]
    Request {
        /// Its name.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The runtime could not do it; its words name the step.
    #[error(transparent)]
    Runtime(#[from] berth_runtime::Error),
    /// A step of the shim's own.
    #[error("{step}: {source}")]
    Step {
        /// What was being done, and to what.
        step: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The processes are killed and have not ended: the kernel holds them.
    #[error("container {0} was killed and has not ended: a process of it hangs in the kernel; try again")]
    Hangs(String),
    /// A thread of this shim panicked.
    #[error("the shim panicked: {0}; see its log")]
    Panicked(String),
}

impl CallError {
    /// A field of the request that makes no sense.
    pub(crate) fn request(field: &'static str, reason: impl Into<String>) -> CallError {
        CallError::Request { field, reason: reason.into() }
    }

    fn code(&self) -> Code {
        match self {
            CallError::Unknown(_) | CallError::Ended(_) => Code::NotFound,
            CallError::Unsupported(_) => Code::Unimplemented,
            CallError::Exists(_) => Code::AlreadyExists,
            CallError::State { .. } | CallError::Ending => Code::FailedPrecondition,
            CallError::Request { .. } => Code::InvalidArgument,
            CallError::Runtime(berth_runtime::Error::Config { .. }) => Code::InvalidArgument,
            CallError::Runtime(berth_runtime::Error::State { .. }) => Code::FailedPrecondition,
            CallError::Runtime(_) | CallError::Step { .. } | CallError::Panicked(_) => Code::Internal,
            CallError::Busy => Code::ResourceExhausted,
            CallError::Hangs(_) | CallError::Building => Code::DeadlineExceeded,
        }
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Status {
        Status::new(error.code(), error.to_string())
    }
}

/// Names the step of a system call.
pub(crate) trait Step<T> {
    /// The step, and what it was about.
    fn step(self, step: impl FnOnce() -> String) -> Result<T, CallError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, CallError> {
        self.map_err(|error| CallError::Step { step: step(), source: error.into() })
    }
}
