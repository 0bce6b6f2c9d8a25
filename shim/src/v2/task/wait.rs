//! Wait: answered when a process has ended.

use berth_proto::containerd as wire;

use crate::error::CallError;
use crate::v2::serve;
use crate::v2::shim::Shim;

/// Waits for the end of a container or exec.
pub(super) async fn wait(
    shim: &Shim,
    request: wire::ProcessRequest,
) -> Result<wire::WaitResponse, CallError> {
    let process = shim.find(&request.id)?.process(&request.exec_id)?;
    process.stopped().await;
    let end = process.life().end();
    Ok(wire::WaitResponse {
        exit_status: end.map_or(0, |(code, _)| code.into()),
        exited_at: end.map(|(_, at)| serve::time(at)),
    })
}
