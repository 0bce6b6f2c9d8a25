//! PodSandboxStatus.

use crate::container::ContainerRecord;
use crate::pod::{Error, Pods};
use crate::sandbox::SandboxRecord;
use berth_core::Timestamp;
use std::sync::Arc;

/// A sandbox and its containers at one moment.
#[derive(Debug, Clone)]
pub struct SandboxStatus {
    /// The sandbox.
    pub sandbox: Arc<SandboxRecord>,
    /// Its containers, newest first.
    pub containers: Vec<Arc<ContainerRecord>>,
    /// When this was so.
    pub at: Timestamp,
}

/// A sandbox and its containers.
///
/// # Errors
/// There is no such sandbox.
pub fn status(pods: &Pods, id: &str) -> Result<SandboxStatus, Error> {
    let found = pods.find_sandbox(id)?;
    let missing = || Error::NoSandbox(id.to_owned());
    let view = pods.view(found).ok_or_else(missing)?;
    let sandbox = view.sandbox.clone().ok_or_else(missing)?;
    let mut containers: Vec<_> = view.containers.values().cloned().collect();
    containers.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
    Ok(SandboxStatus { sandbox, containers, at: Timestamp::now() })
}
