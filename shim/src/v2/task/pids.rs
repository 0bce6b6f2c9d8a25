//! Pids: the processes of a container.

use berth_proto::containerd::{self as wire, Any};

use crate::blocking;
use crate::error::CallError;
use crate::v2::shim::Shim;

/// Everything in the container's cgroup; an exec's first process with the exec's id.
pub(super) async fn pids(
    shim: &Shim,
    request: wire::ContainerRequest,
) -> Result<wire::PidsResponse, CallError> {
    let container = shim.find(&request.id)?;
    let built = container.built.clone().read_owned().await;
    let pids = blocking::run(move || Ok(built.cgroup.procs().map_err(berth_runtime::Error::from)?)).await?;
    let execs: Vec<(u32, String)> = container
        .execs()
        .iter()
        .map(|(exec_id, exec)| (exec.process.life().pid(), exec_id.clone()))
        .collect();
    let details = |pid: u32| {
        let exec_id = execs.iter().find(|(first, _)| *first == pid)?.1.clone();
        Some(Any::of("containerd.runc.v1.ProcessDetails", &wire::ProcessDetails { exec_id }))
    };
    let processes = pids
        .into_iter()
        .map(|pid| wire::ProcessInfo { pid: pid.unsigned_abs(), info: details(pid.unsigned_abs()) })
        .collect();
    Ok(wire::PidsResponse { processes })
}
