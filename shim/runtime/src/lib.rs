//! The embedded low-level runtime: an OCI bundle becomes a process.
//!
//! [`create()`] builds a container up to the point before execve, [`start()`] lets it go, [`exec()`] adds a process, [`kill()`] and
//! [`delete()`] end it. The container is built by a fresh single-threaded process, this same binary started as `init`
//! ([`init::main`]), which talks to its parent by the typed messages of `wire`; no Rust code runs between a clone and an execve.
//! Everything blocks, and nothing here starts a thread.

pub mod args;
pub mod error;
pub mod hooks;
pub mod init;
pub mod known;
pub mod parse;
pub mod seccomp;

pub mod capability;
mod channel;
mod config;
mod create;
mod delete;
mod exec;
mod kill;
mod launch;
mod limit;
mod netdevice;
mod options;
mod rdt;
mod start;
mod wire;

pub use args::{
    CgroupArgs, Context, CreateArgs, Created, Exec, ExecArgs, ExecPlaces, ExecProgram, Hooked, OverlayPlan,
    ResolvedUser, Stdio, Switches, UserLookup,
};
pub use create::{cgroup_path, create};
pub use delete::{delete, delete_parts};
pub use error::{Error, Failure};
pub use exec::exec;
pub use init::given::{RootMount, mount_root, unmount_root};
pub use kill::{kill, kill_all};
pub use start::{entrust, poststart, start, start_by_socket};
