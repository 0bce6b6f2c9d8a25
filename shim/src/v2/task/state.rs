//! State: how a process is.

use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::CallError;
use crate::v2::container::Container;
use crate::v2::process::Life;
use crate::v2::serve;
use crate::v2::shim::Shim;

/// The state of a container or exec.
pub(super) async fn state(
    shim: &Shim,
    request: wire::ProcessRequest,
) -> Result<wire::StateResponse, CallError> {
    let container = shim.find(&request.id)?;
    let process = container.process(&request.exec_id)?;
    let life = *process.life();
    let paused =
        matches!(life, Life::Running(_)) && request.exec_id.is_empty() && is_paused(&container).await;
    let end = life.end();
    Ok(wire::StateResponse {
        id: if request.exec_id.is_empty() { request.id } else { request.exec_id.clone() },
        bundle: container.bundle.display().to_string(),
        pid: life.pid(),
        status: if paused { wire::Status::Paused } else { life.status() }.into(),
        stdin: process.paths.stdin.clone(),
        stdout: process.paths.stdout.clone(),
        stderr: process.paths.stderr.clone(),
        terminal: process.paths.terminal,
        exit_status: end.map_or(0, |(code, _)| code.into()),
        exited_at: end.map(|(_, at)| serve::time(at)),
        exec_id: request.exec_id,
    })
}

async fn is_paused(container: &Container) -> bool {
    let Ok(built) = container.built.clone().try_read_owned() else { return false };
    blocking::run(move || Ok(built.cgroup.is_frozen() == Some(true))).await.unwrap_or(false)
}
