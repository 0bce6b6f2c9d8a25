//! ResizePty: the size of a terminal.

use berth_proto::containerd as wire;
use rustix::termios::Winsize;

use crate::error::{CallError, Step};
use crate::v2::shim::Shim;

/// Sets it; a process without a terminal has nothing to be set.
pub(super) fn resize_pty(shim: &Shim, request: wire::ResizePtyRequest) -> Result<wire::Empty, CallError> {
    let process = shim.find(&request.id)?.process(&request.exec_id)?;
    let cells = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let size =
        Winsize { ws_col: cells(request.width), ws_row: cells(request.height), ws_xpixel: 0, ws_ypixel: 0 };
    process.resize(size).step(|| format!("set the terminal's size of {}", process.called(&request.id)))?;
    Ok(wire::Empty {})
}
