//! A container within its pod: its record, and the one operation that goes on with it.

use super::{Ack, Exit, Waiter};
use crate::container::{ContainerConfig, ContainerRecord, ContainerState};
use berth_core::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A container's place in its pod.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Its steps run.
    Creating {
        /// What it will be.
        config: Arc<ContainerConfig>,
        /// Since when.
        since: Timestamp,
        /// Who asked for it.
        waiters: Vec<Waiter>,
        /// Who asked to stop or remove it meanwhile; it is then given up.
        ending: Vec<Waiter>,
        /// Set once it has been given up.
        cancelled: bool,
        /// Its process ended before the creation was told.
        early: Option<(Exit, Ack)>,
    },
    /// It is there.
    Known {
        /// Its record.
        record: Arc<ContainerRecord>,
        /// What goes on.
        op: Op,
    },
}

/// What goes on with a container.
#[derive(Debug)]
pub(crate) enum Op {
    /// Nothing.
    Idle,
    /// Its program is being started.
    Starting(Starting),
    /// It is being stopped.
    Stopping(Stopping),
    /// It is being removed.
    Removing(Vec<Waiter>),
}

/// A start that goes on.
#[derive(Debug, Default)]
pub(crate) struct Starting {
    /// Who asked.
    pub(crate) waiters: Vec<Waiter>,
    /// Its process ended before the start was told.
    pub(crate) early: Option<(Exit, Ack)>,
    /// A stop that waits for the start to end.
    pub(crate) stop: Option<(Duration, Vec<Waiter>)>,
    /// Removals that wait for the same.
    pub(crate) remove: Vec<Waiter>,
}

/// A stop that goes on.
#[derive(Debug)]
pub(crate) struct Stopping {
    /// Who asked.
    pub(crate) waiters: Vec<Waiter>,
    /// Who wants it removed afterwards.
    pub(crate) remove: Vec<Waiter>,
    /// How far it went.
    pub(crate) phase: Phase,
    /// When the next phase begins, by the clock that never steps.
    pub(crate) deadline: Duration,
    /// Timers of earlier rounds are out of date.
    pub(crate) round: u32,
}

/// How hard a stop tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The stop signal is out.
    Asked,
    /// SIGKILL is out, by the shim.
    Killed,
    /// The cgroup is being killed without the shim.
    Forced,
}

impl Slot {
    /// A container at rest.
    pub(crate) fn known(record: ContainerRecord) -> Self {
        Self::Known { record: Arc::new(record), op: Op::Idle }
    }

    /// Its record, once there is one.
    pub(crate) fn record(&self) -> Option<&Arc<ContainerRecord>> {
        match self {
            Self::Known { record, .. } => Some(record),
            Self::Creating { .. } => None,
        }
    }

    /// What it was asked to be.
    pub(crate) fn config(&self) -> &ContainerConfig {
        match self {
            Self::Known { record, .. } => &record.config,
            Self::Creating { config, .. } => config,
        }
    }

    /// True when no process of it can be left and nothing goes on with it.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Creating { .. } => false,
            Self::Known { record, op } => {
                matches!(op, Op::Idle) && matches!(record.state, ContainerState::Exited(_))
            }
        }
    }
}
