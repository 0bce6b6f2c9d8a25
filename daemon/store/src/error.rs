//! What the store fails with.

use crate::lock::LockError;
use berth_core::{Classified, ErrorClass};
use std::path::PathBuf;

/// A failed act of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the store.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The file cannot be opened.
    #[error("open the store {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<redb::DatabaseError>,
    },
    /// A file of the store cannot be made or reached.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Written by a newer berthd that says older ones must not read it.
    #[error(
        "the store {path} needs a berthd of record level {needs} or newer, this one has {has}: install the newer version again"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Level needed.
        needs: u32,
        /// Level of this program.
        has: u32,
    },
    /// The disk is full, or failed, and reopening did not help.
    #[error("the store cannot be written ({cause}): free space on its disk, reading and removing still work")]
    NoSpace {
        /// What the kernel said.
        cause: String,
    },
    /// redb refused or failed.
    #[error("store: {0}")]
    Redb(Box<redb::Error>),
    /// A value cannot be written as JSON.
    #[error("encode the record {key}: {source}")]
    Encode {
        /// Its key.
        key: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A record that an act depends on cannot be read.
    #[error("the record {table}/{key} is damaged: {why}")]
    Damaged {
        /// Its table.
        table: String,
        /// Its key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The image that a container needs is not there (any more).
    #[error("image {0} not found: pull it first")]
    NoImage(String),
    /// A layer of an image was removed while the image was being pulled.
    #[error("layer {0} was removed during the pull: pull again")]
    NoLayer(String),
    /// A fault point fired.
    #[error(transparent)]
    Injected(#[from] berth_core::fault::Injected),
}

impl StoreError {
    /// Whether it was an I/O error, after which redb must be reopened.
    pub(crate) fn is_io(&self) -> bool {
        match self {
            Self::Redb(error) => matches!(**error, redb::Error::Io(_) | redb::Error::PreviousIo),
            _ => false,
        }
    }
}

impl Classified for StoreError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NoSpace { .. } => ErrorClass::ResourceExhausted,
            Self::NoImage(_) => ErrorClass::NotFound,
            Self::NoLayer(_) => ErrorClass::Aborted,
            Self::Damaged { .. } => ErrorClass::DataLoss,
            Self::Locked(_) | Self::TooNew { .. } => ErrorClass::FailedPrecondition,
            _ => ErrorClass::Internal,
        }
    }
}

macro_rules! from_redb {
    ($($kind:ident),*) => {$(
        impl From<redb::$kind> for StoreError {
            fn from(error: redb::$kind) -> Self {
                Self::Redb(Box::new(error.into()))
            }
        }
    )*};
}
from_redb!(TransactionError, TableError, StorageError, CommitError);
