//! Connect: who is who, asked by a containerd that has come back.

use berth_proto::containerd as wire;

use crate::v2::shim::Shim;

/// The process ids of the shim and of a container's first process; zero for one that is not known.
pub(super) fn connect(shim: &Shim, request: wire::ContainerRequest) -> wire::ConnectResponse {
    let container = shim.find(&request.id);
    wire::ConnectResponse {
        shim_pid: std::process::id(),
        task_pid: container.map_or(0, |container| container.first.life().pid()),
        version: String::new(),
    }
}
