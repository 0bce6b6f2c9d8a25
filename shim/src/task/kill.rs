//! Kill: a signal for the first process, or for all.

use std::sync::Arc;

use berth_proto::shim as wire;

use crate::error::CallError;
use crate::pod::Pod;

/// The highest signal of Linux.
const SIGNAL_MAX: u32 = 64;

/// Signals a container. Waits for nothing and takes no turn, so that it works while anything else is under way.
pub(crate) async fn kill(pod: Arc<Pod>, request: wire::KillRequest) -> Result<wire::KillResponse, CallError> {
    let container = pod.containers.find(&request.id)?;
    let signal = i32::try_from(request.signal)
        .ok()
        .filter(|_| (1..=SIGNAL_MAX).contains(&request.signal))
        .ok_or_else(|| CallError::request("signal", format!("{} is no signal", request.signal)))?;
    if request.all {
        container.signal_all(&pod, signal).await?;
        return Ok(wire::KillResponse {});
    }
    match berth_sys::pidfd::send_signal(&container.pidfd, signal) {
        Ok(()) => Ok(wire::KillResponse {}),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            Ok(wire::KillResponse {})
        }
        Err(source) => {
            Err(CallError::Step { step: format!("signal {signal} for container {}", container.id), source })
        }
    }
}
