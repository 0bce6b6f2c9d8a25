//! The noun "container": what it is asked to be, what is kept of it, and the steps that make and unmake it.

mod act;
mod check;
mod config;
mod create;
mod end;
mod facts;
mod host_path;
mod label;
mod record;
pub mod spec;
mod target;

#[cfg(test)]
pub(crate) use act::EXEC_OUTPUT_MAX;
pub(crate) use act::{exec_sync, reopen_log, signal, start, update};
pub(crate) use check::{check, fits};
pub use config::{
    ContainerConfig, ContainerSecurity, Device, EnvValue, GroupsPolicy, ImageSpec, Mount, Propagation,
};
pub(crate) use create::{Place, create};
pub(crate) use end::{delete, kill_all, kill_cgroup};
pub(crate) use record::START_ERROR_CODE;
pub use record::{ContainerRecord, ContainerState, DEFAULT_STOP_SIGNAL, Exited, Reason, RunUser};
