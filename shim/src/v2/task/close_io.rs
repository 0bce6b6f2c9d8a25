//! CloseIO: the input ends once what was written has been read.

use berth_proto::containerd as wire;

use crate::error::CallError;
use crate::v2::shim::Shim;

/// Lets go of the writing end that kept a process's input open.
pub(super) fn close_io(shim: &Shim, request: wire::CloseIoRequest) -> Result<wire::Empty, CallError> {
    let process = shim.find(&request.id)?.process(&request.exec_id)?;
    if request.stdin {
        process.close_input();
    }
    Ok(wire::Empty {})
}
