//! What registries and mirrors said when a request failed everywhere.

use berth_core::{Classified, ErrorClass, KubeletWord};
use berth_snapshot::Digest;
use std::fmt;

/// What one endpoint said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Scheme, host and port.
    pub endpoint: String,
    /// What kind of failure it was.
    pub fault: Fault,
    /// What it said, cut, without secrets.
    pub reason: String,
}

/// The kind of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No connection, or it broke.
    Unreachable,
    /// Credentials are missing or wrong (401).
    Unauthenticated,
    /// Known and not allowed (403, 451).
    Denied,
    /// Not there (404, 410).
    NotFound,
    /// Overloaded or broken (408, 429, 5xx); the status.
    Busy(u16),
    /// Any other status.
    Refused(u16),
    /// The answer itself is bad.
    BadAnswer,
    /// The content has another digest or size.
    Mismatch,
    /// The content is larger than allowed.
    TooBig,
}

impl Fault {
    /// Whether the same request may succeed in a moment.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::Busy(_))
    }

    /// The fault that a status means.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Unauthenticated,
            403 | 451 => Self::Denied,
            404 | 410 => Self::NotFound,
            408 | 429 | 500..=599 => Self::Busy(status),
            other => Self::Refused(other),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, self.reason)
    }
}

/// A request that no endpoint answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Every endpoint failed.
    #[error("{what}: {}", list(tried))]
    Failed {
        /// What was asked for.
        what: String,
        /// The last word of each endpoint, in order.
        tried: Vec<Tried>,
    },
    /// No endpoint may do this.
    #[error("{what}: no endpoint of {host} has the capability {capability:?}; see its hosts.toml")]
    NoEndpoint {
        /// What was asked for.
        what: String,
        /// The registry.
        host: String,
        /// What is missing.
        capability: &'static str,
    },
    /// The content has another digest.
    #[error("{what} has digest {found}, not {wanted}")]
    Digest {
        /// What was fetched.
        what: String,
        /// What it should be.
        wanted: Digest,
        /// What it is.
        found: Digest,
    },
    /// The request was given up.
    #[error("{0} was cancelled")]
    Cancelled(String),
}

fn list(tried: &[Tried]) -> String {
    tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl RegistryError {
    /// The fault that counts: the last endpoint is the registry itself.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Failed { tried, .. } => tried.last().map(|tried| tried.fault),
            Self::Digest { .. } => Some(Fault::Mismatch),
            _ => None,
        }
    }
}

impl Classified for RegistryError {
    fn class(&self) -> ErrorClass {
        match (self, self.fault()) {
            (Self::Cancelled(_), _) => ErrorClass::Cancelled,
            (Self::NoEndpoint { .. }, _) => ErrorClass::FailedPrecondition,
            (_, Some(Fault::Unauthenticated)) => ErrorClass::Unauthenticated,
            (_, Some(Fault::Denied)) => ErrorClass::PermissionDenied,
            (_, Some(Fault::NotFound)) => ErrorClass::NotFound,
            (_, Some(Fault::Mismatch)) => ErrorClass::DataLoss,
            (_, Some(Fault::TooBig | Fault::BadAnswer | Fault::Refused(_))) => ErrorClass::FailedPrecondition,
            _ => ErrorClass::Unavailable,
        }
    }

    fn word(&self) -> Option<KubeletWord> {
        self.fault().filter(|fault| fault.is_transient()).map(|_| KubeletWord::RegistryUnavailable)
    }
}
