//! Resume: a paused container goes on.

use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::CallError;
use crate::v2::process::Life;
use crate::v2::shim::Shim;

/// Thaws a container.
pub(super) async fn resume(shim: &Shim, request: wire::ContainerRequest) -> Result<wire::Empty, CallError> {
    let container = shim.find(&request.id)?;
    if !matches!(*container.first.life(), Life::Running(_)) {
        return Err(container.first.refusal(&container.id, "it must be paused"));
    }
    let built = container.built.clone().read_owned().await;
    blocking::run(move || Ok(built.cgroup.thaw().map_err(berth_runtime::Error::from)?)).await?;
    shim.events.resumed(&container.id);
    Ok(wire::Empty {})
}
