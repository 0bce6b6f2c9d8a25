//! What the store keeps of a sandbox, and the states it passes through.
//!
//! ```text
//!   Creating ──► Ready ──► NotReady ──► (removed)
//!      └── undone, record gone
//! ```
//! `Creating` is written before the first step, so that a daemon that dies in between finds what to undo.

use super::SandboxConfig;
use berth_core::{SandboxId, Timestamp};
use berth_network::Attachment;
use berth_network::cni::leftover::Failures;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// A sandbox as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxRecord {
    /// Its id.
    pub id: SandboxId,
    /// Runtime handler it was asked for.
    pub handler: String,
    /// What it was asked to be.
    pub config: SandboxConfig,
    /// When it was made; strictly rising per pod.
    pub created_at: Timestamp,
    /// The boot it belongs to.
    pub boot_id: String,
    /// The cgroup of the sandbox itself, in the driver's form; empty for none.
    pub cgroup: String,
    /// Its network.
    pub network: SandboxNetwork,
    /// Where it stands.
    pub state: SandboxState,
}

/// Where a sandbox stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxState {
    /// Its steps run, or were cut short by the end of a daemon.
    Creating,
    /// Its namespaces and its shim live.
    Ready(Live),
    /// It ended, or was found dead.
    NotReady {
        /// When.
        at: Timestamp,
        /// Why, unless it was asked to.
        cause: Option<String>,
    },
}

/// What a ready sandbox has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Process id of its shim.
    pub shim_pid: u32,
    /// Socket of its shim.
    pub socket: PathBuf,
    /// Its namespaces.
    pub namespaces: NamespacePaths,
}

/// Where the pod's own namespaces are found; empty for the host's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NamespacePaths {
    /// Network.
    pub net: String,
    /// IPC.
    pub ipc: String,
    /// UTS.
    pub uts: String,
    /// Shared PID namespace.
    pub pid: String,
}

/// The network of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SandboxNetwork {
    /// The host's.
    Host,
    /// A network namespace of its own.
    Own {
        /// Where it is pinned.
        netns: PathBuf,
        /// What was planned or got; taken away once detached.
        attachment: Option<Box<berth_network::Attachment>>,
        /// How detaching has failed so far.
        #[serde(default)]
        failures: Option<Failures>,
    },
    /// It had one, and that is gone.
    Released,
}

impl SandboxRecord {
    /// Its attachment to a network of its own.
    #[must_use]
    pub fn attachment(&self) -> Option<&Attachment> {
        match &self.network {
            SandboxNetwork::Own { attachment, .. } => attachment.as_deref(),
            _ => None,
        }
    }

    /// The pod's addresses in their order; empty in the host's network and once the sandbox is not ready.
    #[must_use]
    pub fn ips(&self) -> Vec<IpAddr> {
        match (&self.state, &self.network) {
            (SandboxState::Ready(_), SandboxNetwork::Own { attachment: Some(got), .. }) => got.addresses(),
            _ => Vec::new(),
        }
    }

    /// True if it stands for a record that could not be read, now or at an earlier start: it may not say everything.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.boot_id.is_empty()
    }

    /// True while it can take containers.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, SandboxState::Ready(_))
    }

    /// What a ready sandbox has.
    #[must_use]
    pub fn live(&self) -> Option<&Live> {
        match &self.state {
            SandboxState::Ready(live) => Some(live),
            _ => None,
        }
    }

    /// The process id of its shim, while one is known.
    #[must_use]
    pub fn shim_pid(&self) -> Option<u32> {
        self.live().map(|live| live.shim_pid)
    }

    /// The state in one word, for messages.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        match self.state {
            SandboxState::Creating => "being created",
            SandboxState::Ready(_) => "ready",
            SandboxState::NotReady { .. } => "not ready",
        }
    }
}
