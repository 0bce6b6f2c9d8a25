//! Kill: a signal for a process, or for all of a container.

use std::io::ErrorKind;

use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::CallError;
use crate::v2::container::Container;
use crate::v2::process::Life;
use crate::v2::shim::Shim;

/// The highest signal of Linux.
const SIGNAL_MAX: u32 = 64;

const SIGKILL: i32 = 9;

/// Signals. Takes no turn, so that it works while anything else is under way.
pub(super) async fn kill(shim: &Shim, request: wire::KillRequest) -> Result<wire::Empty, CallError> {
    let container = shim.find(&request.id)?;
    let process = container.process(&request.exec_id)?;
    let signal = i32::try_from(request.signal)
        .ok()
        .filter(|_| (0..=SIGNAL_MAX).contains(&request.signal))
        .ok_or_else(|| CallError::request("signal", format!("{} is no signal", request.signal)))?;
    if request.all && request.exec_id.is_empty() {
        container.signal_all(signal).await?;
        return Ok(wire::Empty {});
    }
    if matches!(*process.life(), Life::Stopped { .. }) {
        return Err(CallError::Ended(process.called(&request.id)));
    }
    let handles = process.handles(&request.id)?;
    match berth_sys::pidfd::send_signal(&handles.pidfd, signal) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Err(CallError::Ended(process.called(&request.id)));
        }
        Err(source) => {
            let step = format!("signal {signal} for {}", process.called(&request.id));
            return Err(CallError::Step { step, source });
        }
    }
    if signal == SIGKILL {
        thaw(&container).await?;
    }
    Ok(wire::Empty {})
}

/// A frozen process of v1 dies when it is thawed, not before.
async fn thaw(container: &Container) -> Result<(), CallError> {
    let Ok(built) = container.built.clone().try_read_owned() else { return Ok(()) };
    let thawed = blocking::run(move || match built.cgroup.is_frozen() {
        Some(true) => Ok(built.cgroup.thaw().map_err(berth_runtime::Error::from)?),
        _ => Ok(()),
    });
    match thawed.await {
        // It has died, and its group with it.
        Err(CallError::Step { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
