//! What the store keeps of a container, and the states it passes through.
//!
//! ```text
//!   Creating ──► Created ──► Running ──► Exited ──► (removed)
//!      │            └─────────────────────►┘
//!      └── undone, record gone
//! ```

use super::ContainerConfig;
use berth_core::{ContainerId, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Signal that asks a container to stop when neither request nor image names one.
pub const DEFAULT_STOP_SIGNAL: u32 = 15;

/// The exit code of a container whose program could not be started, as the field has it.
pub(crate) const START_ERROR_CODE: i32 = 128;

/// A container as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// Its id.
    pub id: ContainerId,
    /// The sandbox it lives in.
    pub sandbox: SandboxId,
    /// What it was asked to be; resources are those of the last update.
    pub config: ContainerConfig,
    /// Id of its image, `sha256:…`.
    pub image_id: String,
    /// Digest reference of its image, or its id where it has none.
    pub image_ref: String,
    /// When it was made; strictly rising per name.
    pub created_at: Timestamp,
    /// The boot it belongs to.
    pub boot_id: String,
    /// Its cgroup in the driver's form.
    pub cgroup: String,
    /// Its log file; absent when its output is discarded.
    pub log: Option<PathBuf>,
    /// The signal that asks it to stop.
    pub stop_signal: u32,
    /// Whom its first process runs as, once resolved against the image.
    pub user: Option<RunUser>,
    /// Where it stands.
    pub state: ContainerState,
}

/// Whom a process runs as.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunUser {
    /// User.
    pub uid: i64,
    /// Group.
    pub gid: i64,
    /// All groups, sorted.
    pub groups: Vec<i64>,
}

/// Where a container stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// Its steps run, or were cut short by the end of a daemon.
    Creating,
    /// Prepared up to its program.
    Created {
        /// The process that will become its program, as the host sees it.
        pid: u32,
    },
    /// Its program runs.
    Running {
        /// First process, as the host sees it.
        pid: u32,
        /// Since when.
        started_at: Timestamp,
    },
    /// It ended.
    Exited(Exited),
    /// Nobody can tell; it can be stopped and removed.
    Unknown {
        /// Why.
        cause: String,
    },
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// When it was started; never, if it was not.
    pub started_at: Timestamp,
    /// When it ended, not before it started.
    pub finished_at: Timestamp,
    /// Exit code, 128+N after signal N.
    pub code: i32,
    /// Why, in one word.
    pub reason: Reason,
    /// More about it.
    pub message: String,
}

/// Why a container ended, in the words that users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// With code 0.
    Completed,
    /// With another code.
    Error,
    /// The kernel killed it for its memory.
    OomKilled,
    /// Its program could not be started.
    StartError,
    /// Its shim died.
    ShimLost,
    /// The node restarted.
    NodeRestart,
}

impl Reason {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Error => "Error",
            Self::OomKilled => "OOMKilled",
            Self::StartError => "StartError",
            Self::ShimLost => "ShimLost",
            Self::NodeRestart => "NodeRestart",
        }
    }
}

impl ContainerRecord {
    /// The state in one word, for messages.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        match self.state {
            ContainerState::Creating => "being created",
            ContainerState::Created { .. } => "created",
            ContainerState::Running { .. } => "running",
            ContainerState::Exited(_) => "exited",
            ContainerState::Unknown { .. } => "unknown",
        }
    }

    /// True while its program runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. })
    }
}
