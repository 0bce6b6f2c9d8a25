//! What pod and container verbs fail with.

use berth_core::id::LookupError;
use berth_core::{Classified, ErrorClass, KubeletWord, Timestamp};

/// A refused or failed verb. It can be copied, since everybody who joined an operation gets its failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such sandbox.
    #[error("sandbox {0:?} not found")]
    NoSandbox(String),
    /// No such container.
    #[error("container {0:?} not found")]
    NoContainer(String),
    /// The beginning of more than one id.
    #[error("id {0:?} is ambiguous: give more digits")]
    Ambiguous(String),
    /// A field of the request is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field, as CRI names it.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// An object of this name and attempt is there and is not what was asked for.
    #[error("{what} exists already: {id} is {state}, made {age_s} s ago; remove it or use another attempt")]
    Exists {
        /// Kind and name.
        what: String,
        /// Its id.
        id: String,
        /// Its state.
        state: &'static str,
        /// Its age in seconds.
        age_s: u64,
    },
    /// The state does not allow the act.
    #[error("{act}: {object} is {state}")]
    State {
        /// What was asked.
        act: &'static str,
        /// Of what.
        object: String,
        /// Its state.
        state: String,
    },
    /// A step failed.
    #[error("{step}: {cause}")]
    Step {
        /// The class of the cause.
        class: ErrorClass,
        /// The kubelet's word for it, if any.
        word: Option<KubeletWord>,
        /// What was being done.
        step: String,
        /// Why it failed.
        cause: String,
    },
    /// Given up since the sandbox was stopped or removed meanwhile.
    #[error("{0} was given up: the sandbox or container is being stopped or removed")]
    Cancelled(&'static str),
    /// Something did not happen in time.
    #[error("{what} did not end within {seconds} s{hint}")]
    Deadline {
        /// What.
        what: String,
        /// How long it was given.
        seconds: u64,
        /// What to look at, with its separator.
        hint: &'static str,
    },
    /// The shim does not answer any more.
    #[error("the shim of {0} is gone or does not answer")]
    ShimGone(String),
    /// Asked for something this build does not have.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The actor of the pod has ended.
    #[error("the daemon is shutting down")]
    Closed,
}

impl Error {
    /// A wrong field.
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), problem: problem.into() }
    }

    /// A failed step, with the class of its cause.
    pub fn step<E: Classified>(step: impl Into<String>, cause: &E) -> Self {
        let (class, word) = (cause.class(), cause.word());
        Self::Step { class, word, step: step.into(), cause: berth_core::error::chain(cause) }
    }

    /// A failed step of the kernel's or ours.
    pub fn internal(step: impl Into<String>, cause: impl ToString) -> Self {
        Self::Step { class: ErrorClass::Internal, word: None, step: step.into(), cause: cause.to_string() }
    }

    /// A step failed at a file. A full disk is not the daemon's own fault, and the class says so.
    pub(crate) fn file(step: impl Into<String>, cause: &std::io::Error) -> Self {
        let full =
            matches!(cause.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
        let class = if full { ErrorClass::ResourceExhausted } else { ErrorClass::Internal };
        Self::Step { class, word: None, step: step.into(), cause: cause.to_string() }
    }

    /// An object in the way.
    pub(crate) fn exists(what: String, id: &str, state: &'static str, created_at: Timestamp) -> Self {
        Self::Exists { what, id: id.to_owned(), state, age_s: created_at.age().as_secs() }
    }
}

impl Classified for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NoSandbox(_) | Self::NoContainer(_) => ErrorClass::NotFound,
            Self::Ambiguous(_) | Self::Invalid { .. } => ErrorClass::InvalidArgument,
            Self::Exists { .. } => ErrorClass::AlreadyExists,
            Self::State { .. } => ErrorClass::FailedPrecondition,
            Self::Step { class, .. } => *class,
            Self::Cancelled(_) => ErrorClass::Cancelled,
            Self::Deadline { .. } => ErrorClass::DeadlineExceeded,
            Self::ShimGone(_) | Self::Closed => ErrorClass::Unavailable,
            Self::Unsupported(_) => ErrorClass::Unimplemented,
        }
    }

    fn word(&self) -> Option<KubeletWord> {
        match self {
            Self::Step { word, .. } => *word,
            _ => None,
        }
    }
}

/// Which kind of object an id was meant to name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Noun {
    /// A sandbox.
    Sandbox,
    /// A container.
    Container,
}

impl Noun {
    /// Turns a failed look-up into this module's words.
    pub(crate) fn missing(self, error: LookupError) -> Error {
        match (error, self) {
            (LookupError::Ambiguous(text), _) => Error::Ambiguous(text),
            (LookupError::Unknown(text), Self::Sandbox) => Error::NoSandbox(text),
            (LookupError::Unknown(text), Self::Container) => Error::NoContainer(text),
        }
    }
}
