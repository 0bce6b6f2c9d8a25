//! Update: new limits, all or nothing.

use berth_core::oci::LinuxResources;
use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::CallError;
use crate::v2::process::Life;
use crate::v2::shim::Shim;

/// Sets a container's limits, which come as JSON of the runtime specification.
pub(super) async fn update(shim: &Shim, request: wire::UpdateTaskRequest) -> Result<wire::Empty, CallError> {
    let container = shim.find(&request.id)?;
    let missing = || CallError::request("resources", "is missing");
    let resources: LinuxResources = serde_json::from_slice(&request.resources.ok_or_else(missing)?.value)
        .map_err(|error| CallError::request("resources", error.to_string()))?;
    if matches!(*container.first.life(), Life::Stopped { .. }) {
        return Err(container.first.refusal(&container.id, "it must not have ended"));
    }
    let built = container.built.clone().read_owned().await;
    blocking::run(move || Ok(built.cgroup.set(&resources).map_err(berth_runtime::Error::from)?)).await?;
    Ok(wire::Empty {})
}
