//! What a pod wants done. Each effect is a task whose end, where it matters, is an input again.

use super::{Ack, Reply, Waiter};
use crate::container::{ContainerConfig, ContainerRecord};
use crate::pod::Error;
use crate::sandbox::{Resources, SandboxConfig, SandboxRecord};
use berth_core::{ContainerId, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A container that is to be made.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its id.
    pub id: ContainerId,
    /// Its time.
    pub created_at: Timestamp,
    /// What it is asked to be.
    pub config: Arc<ContainerConfig>,
}

/// One record to be saved.
#[derive(Debug, Clone)]
pub enum Write {
    /// A sandbox.
    Sandbox(Arc<SandboxRecord>),
    /// A container.
    Container(Arc<ContainerRecord>),
}

/// What is done once a save has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Answers, given even if the save failed: what they tell has happened and the shim can tell it again.
    pub answers: Vec<(Waiter, Result<Reply, Error>)>,
    /// Acknowledged only if the save succeeded; else the shim tells the fact again.
    pub acks: Vec<Ack>,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Answer somebody.
    Answer(Waiter, Result<Reply, Error>),
    /// Save, then what depends on it.
    Save(Vec<Write>, Saved),
    /// Acknowledge a fact at once.
    Ack(Ack),
    /// Make the sandbox.
    Run(Box<SandboxConfig>, Timestamp),
    /// Give up making the sandbox.
    CancelRun,
    /// Detach the network and end the shim.
    Teardown(Arc<SandboxRecord>),
    /// Remove what is left of the sandbox, its record last.
    Unmake(Arc<SandboxRecord>),
    /// Make a container.
    Create(Draft, Arc<SandboxRecord>),
    /// Give up making a container.
    CancelCreate(ContainerId),
    /// Start a container's program.
    Start(ContainerId),
    /// Signal a container, its first process or all of them.
    Signal {
        /// The container.
        id: ContainerId,
        /// The signal.
        signal: u32,
        /// Every process of its cgroup.
        all: bool,
    },
    /// Kill a container's cgroup without its shim.
    KillCgroup(Arc<ContainerRecord>),
    /// Kill everything of the pod without its shim.
    KillAll(Vec<Arc<ContainerRecord>>),
    /// Remove what is left of a container, its record last.
    Delete(Arc<ContainerRecord>),
    /// Change a container's limits.
    Update(Arc<ContainerRecord>, Box<Resources>, Waiter),
    /// Tell when this time has passed.
    Timer(ContainerId, u32, Duration),
}

impl Saved {
    /// Answers to several with the same words.
    pub(crate) fn answers(waiters: Vec<Waiter>, result: &Result<Reply, Error>) -> Self {
        let answers = waiters.into_iter().map(|waiter| (waiter, result.clone())).collect();
        Self { answers, acks: Vec::new() }
    }

    /// With a fact to acknowledge.
    pub(crate) fn ack(mut self, ack: impl IntoIterator<Item = Ack>) -> Self {
        self.acks.extend(ack);
        self
    }
}
