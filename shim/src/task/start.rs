//! Start: the program is executed.

use std::sync::Arc;

use berth_core::Timestamp;
use berth_proto::shim as wire;

use crate::blocking;
use crate::error::CallError;
use crate::phase::Phase;
use crate::pod::Pod;

/// Executes a container's program; a program that cannot be executed is this call's error, and the container's exit.
pub(crate) async fn start(
    pod: Arc<Pod>,
    request: wire::StartRequest,
) -> Result<wire::StartResponse, CallError> {
    let container = pod.containers.find(&request.id)?;
    // The exit of a program that ends at once is told after this call has set the state, not before.
    let turn = container.turn.clone().lock_owned().await;
    let phase = container.phase().clone();
    if phase != Phase::Created {
        return Err(container.refusal(&phase, "it must be created"));
    }
    let mut built = container.built.clone().write_owned().await;
    let busy = pod.reaper.busy();
    let started_at = Timestamp::now();
    let result = blocking::run(move || Ok(berth_runtime::start(&mut built)?)).await;
    drop(busy);
    let next = match &result {
        Ok(()) => Phase::Running { started_at },
        Err(error) => Phase::Doomed { cause: error.to_string() },
    };
    container.phase().settle(next);
    if result.is_err() {
        // Whatever init does now, nothing of it is to stay.
        let _ended_already = berth_sys::pidfd::send_signal(&container.pidfd, 9);
    }
    drop(turn);
    result.map(|()| wire::StartResponse { started_at: started_at.nanos() })
}
