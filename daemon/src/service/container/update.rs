//! UpdateContainerResources.

use crate::pod::machine::Request;
use crate::pod::{Error, Pods};
use crate::sandbox::Resources;

/// Changes a container's limits: all of them, or none.
///
/// # Errors
/// No such container, a state that does not allow it, or the kernel's refusal.
pub async fn update(pods: &Pods, id: &str, resources: Resources) -> Result<(), Error> {
    let (sandbox, id) = pods.find_container(id)?;
    pods.ask(sandbox, Request::Update(id, Box::new(resources))).await.map(drop)
}
