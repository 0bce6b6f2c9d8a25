//! Stats: what a container uses.

use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::CallError;
use crate::v2::metrics;
use crate::v2::shim::Shim;

/// Reads the figures of the container's cgroup.
pub(super) async fn stats(
    shim: &Shim,
    request: wire::ContainerRequest,
) -> Result<wire::StatsResponse, CallError> {
    let container = shim.find(&request.id)?;
    let built = container.built.clone().read_owned().await;
    let stats = blocking::run(move || Ok(metrics::read(&built.cgroup))).await?;
    Ok(wire::StatsResponse { stats: Some(stats) })
}
