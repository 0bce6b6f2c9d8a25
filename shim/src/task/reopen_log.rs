//! ReopenLog: after a rotation the output goes on in a new file, from a record's beginning.

use std::sync::Arc;

use berth_proto::shim as wire;

use crate::error::{CallError, Step};
use crate::pod::Pod;

/// Opens the log anew, in whatever state the container is. If that fails, the old file goes on being written.
pub(crate) async fn reopen_log(
    pod: Arc<Pod>,
    request: wire::ReopenLogRequest,
) -> Result<wire::ReopenLogResponse, CallError> {
    let output = &pod.containers.find(&request.id)?.output;
    output.reopen().await.step(|| format!("open log {}", output.path().display()))?;
    Ok(wire::ReopenLogResponse {})
}
