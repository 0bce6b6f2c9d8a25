//! Delete: what the container holds is freed.

use std::sync::Arc;
use std::time::Duration;

use berth_proto::shim as wire;

use crate::blocking;
use crate::container::Container;
use crate::error::CallError;
use crate::pod::Pod;
use crate::task::list::exit_to_wire;

/// A killed container has this long to end.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// The last output has this long to reach the log.
const LAST_OUTPUT_MAX: Duration = Duration::from_secs(1);

/// Deletes a container, killing it first if it lives. An unknown one is deleted already.
pub(crate) async fn delete(
    pod: Arc<Pod>,
    request: wire::DeleteRequest,
) -> Result<wire::DeleteResponse, CallError> {
    let container = match pod.containers.find(&request.id) {
        Ok(container) => container,
        Err(CallError::Unknown(_)) => return Ok(wire::DeleteResponse { exit: None }),
        Err(error) => return Err(error),
    };
    remove(&pod, &container).await?;
    Ok(wire::DeleteResponse { exit: container.phase().exit().map(exit_to_wire) })
}

/// Kills, frees and forgets one container.
pub(crate) async fn remove(pod: &Pod, container: &Arc<Container>) -> Result<(), CallError> {
    if container.phase().exit().is_none() {
        container.kill_all(pod).await?;
    }
    container.until_stopped(DEATH_MAX).await?;
    let _turn = container.turn.lock().await;
    if !pod.containers.find(&container.id).is_ok_and(|found| Arc::ptr_eq(&found, container)) {
        // Another call was quicker.
        return Ok(());
    }
    // Whoever moved its first process elsewhere may have left others where they were.
    container.kill_all(pod).await?;
    // The runtime waits for its hooks itself.
    let _busy = pod.reaper.busy();
    let built = container.built.clone().read_owned().await;
    for warning in blocking::run(move || Ok(berth_runtime::delete(&built)?)).await? {
        crate::say!("container {}: {warning}", container.id);
    }
    // All that held the streams is gone: what is in them is the last of it.
    container.output.finish(LAST_OUTPUT_MAX).await;
    pod.containers.forget(&container.id);
    Ok(())
}
