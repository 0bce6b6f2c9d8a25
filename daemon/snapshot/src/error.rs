//! What can go wrong with trees on disk.

use crate::key::LayerKey;
use berth_core::{Classified, ErrorClass};
use std::io;
use std::path::PathBuf;

/// A failed act on the layer store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{act} {}", path.display())]
    Io {
        /// What was being done.
        act: &'static str,
        /// To what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The layer's directory is not there.
    #[error("layer {0} is not on disk; pull its image again")]
    NoLayer(LayerKey),
    /// A container's writable tree exists already.
    #[error("container {0} has a writable tree already; remove it first")]
    ContainerExists(String),
    /// An id that must not become a file name.
    #[error("{0:?} is no container id")]
    BadId(String),
    /// More layers than overlay takes.
    #[error("{0} layers are more than overlay takes ({max})", max = crate::overlay::MAX_LAYERS)]
    TooManyLayers(usize),
    /// A file system is mounted inside a tree that should be removed.
    #[error("{} is a mount point; unmount it, then the removal can go on", .0.display())]
    Mounted(PathBuf),
    /// A layer's own notes cannot be read.
    #[error("notes of layer {key} are damaged: {why}; pull its image again")]
    BadMeta {
        /// The layer.
        key: LayerKey,
        /// What is wrong.
        why: String,
    },
}

/// What this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(act: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let path = path.into();
        move |errno| Self::Io { act, path, source: errno.into() }
    }

    pub(crate) fn std(act: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { act, path, source }
    }
}

impl Classified for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Io { source, .. } => match source.raw_os_error() {
                Some(libc_enospc) if libc_enospc == rustix::io::Errno::NOSPC.raw_os_error() => {
                    ErrorClass::ResourceExhausted
                }
                _ => ErrorClass::Internal,
            },
            Self::NoLayer(_) | Self::BadMeta { .. } => ErrorClass::DataLoss,
            Self::ContainerExists(_) => ErrorClass::AlreadyExists,
            Self::BadId(_) | Self::TooManyLayers(_) => ErrorClass::InvalidArgument,
            Self::Mounted(_) => ErrorClass::FailedPrecondition,
        }
    }
}
