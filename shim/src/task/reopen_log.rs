//! ReopenLog: after a rotation the output goes on in a new file, from a record's beginning.

use std::sync::Arc;

use berth_proto::shim as wire;

use crate::blocking;
use crate::error::{CallError, Step};
use crate::io::log_file;
use crate::pod::Pod;

/// Opens the log anew, in whatever state the container is. If that fails, the old file goes on being written.
pub(crate) async fn reopen_log(
    pod: Arc<Pod>,
    request: wire::ReopenLogRequest,
) -> Result<wire::ReopenLogResponse, CallError> {
    let container = pod.find(&request.id)?;
    let path = container.output.log().path().to_owned();
    if !path.as_os_str().is_empty() {
        let open = move || log_file::open(&path).step(|| format!("open log {}", path.display()));
        let file = blocking::run(open).await?;
        container.output.log().replace(file);
    }
    Ok(wire::ReopenLogResponse {})
}
