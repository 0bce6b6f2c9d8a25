//! Control groups of every kind: v1, hybrid and v2, made by hand or by systemd.
//!
//! The order of use: [`Hierarchies::discover`] once per process; [`CgroupPath::parse`] of what the bundle says;
//! [`Cgroup::create`]; then the new process joins, either by itself (through [`Cgroup::v1_dirs`] and
//! [`Cgroup::unified_dir`]) or by [`Cgroup::join`]; later [`Cgroup::set`], [`Cgroup::stats`], [`Cgroup::kill`], and
//! [`Cgroup::delete`]. A process that did not create the group opens it with [`Cgroup::open`].
//!
//! Everything here blocks, and nothing starts a thread. Directories are held by descriptors, so that a path that
//! was remade in between is never mistaken for the old group.

pub mod device;
pub mod error;
pub mod exec_group;
pub mod group;
pub mod hierarchy;
pub mod limits;
pub mod oom;
pub mod path;
pub mod stats;
#[cfg(feature = "systemd")]
pub mod systemd;

mod file;
mod freeze;
mod kill;
mod procs;
mod remove;

pub use error::{CgroupError, Result};
pub use exec_group::ExecGroup;
pub use group::Cgroup;
pub use hierarchy::{Hierarchies, Mode};
pub use oom::OomWatch;
pub use path::{CgroupPath, Driver, PathError};
pub use stats::Stats;
