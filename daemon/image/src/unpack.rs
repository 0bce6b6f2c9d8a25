//! Unpacking: a compressed tar from a stranger becomes a layer's tree in overlay's format.
//!
//! The work is done by a short-lived, confined process per layer ([`worker`]), which decodes ([`decode`]), hashes the
//! uncompressed tar, and applies it ([`apply`]) below a directory handle. It reports what the layer needed from the
//! layers below ([`report::Needs`]); [`finish`] settles that afterwards, in the daemon, since it must read other layers.

pub mod apply;
pub mod confine;
pub mod decode;
pub mod finish;
pub mod input;
pub mod job;
pub mod limits;
pub mod pipeline;
pub mod report;
pub mod tar;
pub mod wire;
pub mod worker;

pub use job::{Job, WorkerCommand};
pub use limits::Limits;
pub use report::{Failure, FailureKind, Needs, Report};

#[cfg(test)]
#[path = "../tests/support/tar.rs"]
pub(crate) mod test_tar;
