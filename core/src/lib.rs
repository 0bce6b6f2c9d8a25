//! What every part of Berth shares and nothing else: ids, times, log records, exit records, error classes,
//! profile texts, the words of OCI, fault points. No I/O beyond asking the kernel for random bytes and the time.

pub mod error;
pub mod exit;
pub mod fault;
pub mod id;
pub mod log;
pub mod oci;
pub mod profile;
pub mod time;

pub use error::{Classified, Error, ErrorClass, KubeletWord, Result};
pub use id::{ContainerId, SandboxId};
pub use time::Timestamp;
