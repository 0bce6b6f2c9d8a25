//! ListContainers.

use crate::container::{ContainerRecord, ContainerState};
use crate::pod::Pods;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A container's state in CRI's four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Created.
    Created,
    /// Running.
    Running,
    /// Exited.
    Exited,
    /// Nobody can tell.
    Unknown,
}

impl State {
    /// Of a container.
    #[must_use]
    pub fn of(record: &ContainerRecord) -> Self {
        match record.state {
            ContainerState::Creating | ContainerState::Created { .. } => Self::Created,
            ContainerState::Running { .. } => Self::Running,
            ContainerState::Exited(_) => Self::Exited,
            ContainerState::Unknown { .. } => Self::Unknown,
        }
    }
}

/// Which containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// An id or the beginning of one; empty for all.
    pub id: String,
    /// Only this state.
    pub state: Option<State>,
    /// A sandbox's id or the beginning of one; empty for all.
    pub sandbox: String,
    /// Labels that it must have.
    pub labels: BTreeMap<String, String>,
}

impl Filter {
    pub(super) fn fits(&self, record: &ContainerRecord) -> bool {
        record.id.as_str().starts_with(&self.id)
            && record.sandbox.as_str().starts_with(&self.sandbox)
            && self.state.is_none_or(|state| state == State::of(record))
            && self.labels.iter().all(|(key, value)| record.config.labels.get(key) == Some(value))
    }
}

/// The containers that fit, newest first.
#[must_use]
pub fn list(pods: &Pods, filter: &Filter) -> Vec<Arc<ContainerRecord>> {
    let views = pods.views();
    let all = views.iter().flat_map(|view| view.containers.values());
    let mut fitting: Vec<_> = all.filter(|record| filter.fits(record)).cloned().collect();
    fitting.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
    fitting
}
