//! Pause: all processes of a container stop where they stand.

use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::CallError;
use crate::v2::process::Life;
use crate::v2::shim::Shim;

/// Freezes a running container.
pub(super) async fn pause(shim: &Shim, request: wire::ContainerRequest) -> Result<wire::Empty, CallError> {
    let container = shim.find(&request.id)?;
    if !matches!(*container.first.life(), Life::Running(_)) {
        return Err(container.first.refusal(&container.id, "it must be running"));
    }
    let built = container.built.clone().read_owned().await;
    blocking::run(move || Ok(built.cgroup.freeze().map_err(berth_runtime::Error::from)?)).await?;
    shim.events.paused(&container.id);
    Ok(wire::Empty {})
}
