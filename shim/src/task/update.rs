//! Update: new limits, all or nothing.

use std::sync::Arc;

use berth_core::oci::LinuxResources;
use berth_proto::shim as wire;

use crate::blocking;
use crate::error::CallError;
use crate::pod::Pod;

/// Sets a container's limits.
pub(crate) async fn update(
    pod: Arc<Pod>,
    request: wire::UpdateRequest,
) -> Result<wire::UpdateResponse, CallError> {
    let container = pod.containers.find(&request.id)?;
    let resources: LinuxResources = serde_json::from_slice(&request.resources)
        .map_err(|error| CallError::request("resources", error.to_string()))?;
    if let Some(refusal) = stopped(&container) {
        return Err(refusal);
    }
    let built = container.built.clone().read_owned().await;
    blocking::run(move || Ok(built.cgroup.set(&resources).map_err(berth_runtime::Error::from)?)).await?;
    Ok(wire::UpdateResponse {})
}

fn stopped(container: &crate::container::Container) -> Option<CallError> {
    let phase = container.phase().clone();
    phase.exit().is_some().then(|| container.refusal(&phase, "it must not have ended"))
}
