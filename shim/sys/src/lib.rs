//! The only unsafe code of the workspace: process creation and the system calls that rustix lacks.
//!
//! Everything here is a thin, safe function over one mechanism of the kernel; what to do with it is decided elsewhere.
#![cfg(target_os = "linux")]

pub mod bpf;
pub mod inherited;
pub mod malloc;
mod missing;
pub mod mount;
pub mod namespace;
pub mod path;
pub mod pidfd;
pub mod process;
pub mod sealed;
pub mod seccomp;
pub mod signal;
pub mod spawn;

pub use missing::{Call, lacks, missing};
pub use sealed::{sealed_exe, sealed_self};
