//! Figures of containers and pods, read by the daemon from cgroups and writable layers.
//!
//! What is not known is none: a zero would mislead whoever computes a rate from it. Reading takes no pod's time.

mod cache;
mod read;

pub(crate) use cache::Cache;
pub(crate) use read::{container, pod};

use crate::container::ContainerRecord;
use crate::sandbox::SandboxRecord;
use berth_core::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;

/// The figures of a container.
#[derive(Debug, Clone)]
pub struct ContainerStats {
    /// The container.
    pub record: Arc<ContainerRecord>,
    /// Processor, memory and so on; none if it has no cgroup any more.
    pub usage: Option<Usage>,
    /// Its writable layer; none if that could not be measured yet.
    pub writable: Option<Writable>,
}

/// The figures of a pod.
#[derive(Debug, Clone)]
pub struct PodStats {
    /// The sandbox.
    pub sandbox: Arc<SandboxRecord>,
    /// The pod's cgroup with everything in it.
    pub usage: Option<Usage>,
    /// Interfaces: the default one first.
    pub interfaces: Vec<Interface>,
    /// When the interfaces were read.
    pub at: Timestamp,
    /// Its running containers.
    pub containers: Vec<ContainerStats>,
}

/// A reading of a cgroup.
#[derive(Debug, Clone)]
pub struct Usage {
    /// When.
    pub at: Timestamp,
    /// What the kernel tells.
    pub cgroup: berth_cgroup::Stats,
    /// Billionths of a core over the time since an earlier reading; none before the second one.
    pub nano_cores: Option<u64>,
}

/// What a writable layer takes.
#[derive(Debug, Clone)]
pub struct Writable {
    /// When it was measured.
    pub at: Timestamp,
    /// On which file system.
    pub directory: PathBuf,
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Counters of a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name in the pod.
    pub name: String,
    /// Received bytes.
    pub rx_bytes: u64,
    /// Errors while receiving.
    pub rx_errors: u64,
    /// Sent bytes.
    pub tx_bytes: u64,
    /// Errors while sending.
    pub tx_errors: u64,
}
