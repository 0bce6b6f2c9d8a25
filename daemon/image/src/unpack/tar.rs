//! A strict tar reader for image layers.
//!
//! It reads what Go's `archive/tar` reads, and the same way, since that is what every registry's layers were made
//! and checked with: ustar, STAR, GNU and PAX headers, long names, the four sparse forms. Where readers disagree
//! about sizes, layers can smuggle entries; so everything doubtful ends the layer.

pub mod header;
pub mod number;
pub mod pax;
pub mod reader;
pub mod sparse;

pub use reader::{Entry, Kind, Reader};

/// Why a tar was refused.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The bytes could not be read or decompressed.
    #[error("read the layer")]
    Read(#[source] std::io::Error),
    /// The archive ends inside an entry.
    #[error("the tar ends inside an entry")]
    Truncated,
    /// A header breaks the format.
    #[error("bad tar header: {0}")]
    Header(&'static str),
    /// A PAX record breaks the format.
    #[error("bad PAX record: {0}")]
    Pax(&'static str),
    /// A sparse map breaks the format.
    #[error("bad sparse map: {0}")]
    Sparse(&'static str),
    /// An entry of a type that no layer may have.
    #[error("unsupported tar entry type {0:?}")]
    Type(char),
    /// Something is larger than it may be.
    #[error("{0} is larger than allowed")]
    TooBig(&'static str),
}
