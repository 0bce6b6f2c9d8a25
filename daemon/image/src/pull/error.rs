//! Why a pull failed.

use crate::auth::AuthError;
use crate::reference::ReferenceError;
use crate::registry::RegistryError;
use crate::registry::hosts::HostsError;
use crate::registry::manifest::ManifestError;
use crate::unpack::finish::FinishError;
use crate::unpack::job::JobError;
use crate::unpack::report::{Failure, FailureKind};
use berth_core::{Classified, ErrorClass, KubeletWord};
use berth_snapshot::Digest;
use std::sync::Arc;

/// A failed pull. Clones share the cause, since one pull may have many waiters.
#[derive(Debug, Clone, thiserror::Error)]
#[error("pull {reference}")]
pub struct Error {
    reference: String,
    #[source]
    kind: Arc<ErrorKind>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// The text is no reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The credentials cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The registry's hosts.toml is damaged.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    /// The manifest could not be had or used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The image's configuration is bad.
    #[error("image configuration {digest}: {why}")]
    Config {
        /// Its digest.
        digest: Digest,
        /// What is wrong.
        why: String,
    },
    /// The image is for another machine.
    #[error("the image is for {found}, this node is {wanted}")]
    Platform {
        /// This node.
        wanted: String,
        /// The image.
        found: String,
    },
    /// A layer could not be unpacked.
    #[error("layer {digest}")]
    Layer {
        /// Its digest.
        digest: Digest,
        /// Why.
        source: JobError,
    },
    /// A layer could not be written down on its way to the worker.
    #[error("spool layer {digest}")]
    Spool {
        /// Its digest.
        digest: Digest,
        /// Why.
        source: std::io::Error,
    },
    /// A layer's contents are not those that the configuration names.
    #[error("layer {digest} unpacks to {found}, not to the {wanted} of the image configuration")]
    DiffId {
        /// The compressed layer.
        digest: Digest,
        /// What the configuration says.
        wanted: Digest,
        /// What came out.
        found: Digest,
    },
    /// A layer does not fit the layers below it.
    #[error("layer {digest}")]
    Finish {
        /// The compressed layer.
        digest: Digest,
        /// Why.
        source: FinishError,
    },
    /// The layer store failed.
    #[error(transparent)]
    Snapshot(#[from] berth_snapshot::Error),
    /// The records could not be read or written.
    #[error(transparent)]
    Index(#[from] berth_core::Error),
    /// Everybody who waited for it gave up.
    #[error("cancelled")]
    Cancelled,
    /// A task of ours ended badly.
    #[error("internal failure: {0}")]
    Internal(String),
}

impl Error {
    pub(crate) fn new(reference: impl ToString, kind: impl Into<ErrorKind>) -> Self {
        Self { reference: reference.to_string(), kind: Arc::new(kind.into()) }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl Classified for Error {
    fn class(&self) -> ErrorClass {
        self.kind.class()
    }

    fn word(&self) -> Option<KubeletWord> {
        self.kind.word()
    }
}

impl Classified for ErrorKind {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Reference(error) => error.class(),
            Self::Auth(error) => error.class(),
            Self::Hosts(error) => error.class(),
            Self::Manifest(error) => error.class(),
            Self::Registry(error) => error.class(),
            Self::Platform { .. } => ErrorClass::NotFound,
            Self::DiffId { .. } => ErrorClass::DataLoss,
            Self::Config { .. } => ErrorClass::FailedPrecondition,
            Self::Finish { source, .. } => source.class(),
            Self::Spool { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                ErrorClass::ResourceExhausted
            }
            Self::Spool { .. } => ErrorClass::Internal,
            Self::Layer { source: JobError::Failed(failure), .. } => failure_class(failure),
            Self::Layer { .. } | Self::Internal(_) => ErrorClass::Internal,
            Self::Snapshot(error) => error.class(),
            Self::Index(error) => error.class(),
            Self::Cancelled => ErrorClass::Cancelled,
        }
    }

    fn word(&self) -> Option<KubeletWord> {
        match self {
            Self::Manifest(error) => error.word(),
            Self::Registry(error) => error.word(),
            _ => None,
        }
    }
}

fn failure_class(failure: &Failure) -> ErrorClass {
    match failure.kind {
        FailureKind::BadLayer | FailureKind::TooBig => ErrorClass::FailedPrecondition,
        FailureKind::NoSpace => ErrorClass::ResourceExhausted,
        FailureKind::Truncated => ErrorClass::Unavailable,
        FailureKind::Internal => ErrorClass::Internal,
    }
}
