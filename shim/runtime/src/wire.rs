//! What init and its parent say to each other.

use std::path::PathBuf;

use berth_core::oci::{Process, Spec};
use serde::{Deserialize, Serialize};

use crate::args::{OverlayPlan, ResolvedUser, Switches, UserLookup};
use crate::error::Failure;

/// Parent to init, first frame. The second is the seccomp filter's bytes, empty for none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Build a container, wait for [`Go::Start`], execute.
    Create(Box<CreateOrder>),
    /// Join a container, execute.
    Exec(Box<ExecOrder>),
}

/// Everything init needs to build a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CreateOrder {
    pub(crate) id: String,
    pub(crate) bundle: PathBuf,
    pub(crate) spec: Spec,
    pub(crate) overlay: Option<OverlayPlan>,
    pub(crate) user: Option<UserLookup>,
    pub(crate) switches: Switches,
    pub(crate) terminal: bool,
    pub(crate) common: Common,
    /// Namespaces to join, in order: kind bits and descriptor number.
    pub(crate) joins: Vec<(u64, i32)>,
    /// User namespaces for id-mapped mounts: index in `mounts` and descriptor number.
    pub(crate) idmaps: Vec<(usize, i32)>,
    /// A user namespace with the container's mappings, for the layers of an overlay.
    pub(crate) layer_map: Option<i32>,
    /// Namespaces to make that the clone did not make.
    pub(crate) make: u64,
    /// Those that the clone made.
    pub(crate) made: u64,
    /// Whether the last process has to be forked after joining or making namespaces.
    pub(crate) fork: bool,
    /// The parent has hooks to run or network devices to move before the root is changed.
    pub(crate) runtime_hooks: bool,
    /// A socket to take the order to start from, besides the channel.
    pub(crate) listener: Option<i32>,
    /// The cgroup's directory in every v1 hierarchy with the names it is known by, for cgroup mounts.
    pub(crate) cgroup_mounts: CgroupMounts,
}

/// What both kinds of process need.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Common {
    /// Whether the program is in a user namespace of its own.
    pub(crate) user_namespace: bool,
    /// v1 cgroup directories to join, one per hierarchy.
    pub(crate) cgroups: Vec<PathBuf>,
    /// SECCOMP_FILTER_FLAG_*.
    pub(crate) seccomp_flags: u32,
    /// A connected socket that takes the seccomp listener.
    pub(crate) seccomp_listener: Option<i32>,
    /// The memory policy: mode and nodes.
    pub(crate) memory_policy: Option<(u32, Vec<u64>)>,
    /// Environment entries that JSON cannot hold as text, in hexadecimal.
    pub(crate) env_bytes: Vec<String>,
    /// What its reader is told with it.
    pub(crate) seccomp_metadata: Option<String>,
    /// How many descriptors from 3 on the program keeps.
    pub(crate) preserved: u32,
}

/// What a cgroup mount shows.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CgroupMounts {
    /// v1: the hierarchy's mount point, its controllers, this container's directory in it.
    pub(crate) v1: Vec<(PathBuf, Vec<String>, PathBuf)>,
    /// v2: this container's directory in the unified tree.
    pub(crate) unified: Option<PathBuf>,
}

/// Everything init needs to add a process to a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecOrder {
    /// The container's process, as a pidfd.
    pub(crate) target: i32,
    /// The namespaces to take from it.
    pub(crate) join: u64,
    pub(crate) process: Process,
    /// The container whose session keyring is joined; none to keep the caller's.
    pub(crate) keyring: Option<String>,
    /// The container's execution domain.
    pub(crate) personality: Option<u64>,
    /// The container's state, for a seccomp agent.
    pub(crate) state: String,
    pub(crate) terminal: bool,
    pub(crate) common: Common,
}

/// Init to parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A user namespace waits for its mappings.
    MapUsers,
    /// The container's process is this one from now on, its pidfd comes along; the one that spoke so far ends.
    Sibling(i32),
    /// Namespaces are there, mounts are made: the parent moves network devices and runs its hooks.
    Hooks,
    /// Built; waiting for [`Go::Start`]. The terminal's master comes along, if there is one.
    Ready { user: ResolvedUser, warnings: Vec<String> },
    /// It cannot be done.
    Failed(Failure),
}

/// Parent to init.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Go {
    /// What was reported has been dealt with. After the order and after [`Report::Sibling`] this is the receiver's process id
    /// as the parent sees it.
    Continue(i32),
    /// Execute.
    Start,
}
