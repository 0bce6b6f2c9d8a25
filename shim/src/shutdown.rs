//! The end of the shim: everything is killed and deleted, then the namespaces go, then the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::CallError;
use crate::pod::Pod;
use crate::task::delete;

/// A container that is being built has this long to be there, so that it can be deleted.
const BUILD_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Frees all that the pod holds and lets the shim end. If something cannot be freed the shim stays, so that the call
/// can be made again.
pub(crate) async fn shutdown(pod: &Arc<Pod>) -> Result<(), CallError> {
    pod.closing.store(true, Ordering::Relaxed);
    let built = async {
        while pod.containers.is_creating() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(BUILD_MAX, built).await.map_err(|_| CallError::Building)?;
    let removals: Vec<_> = pod
        .containers
        .all()
        .into_iter()
        .map(|container| {
            let pod = pod.clone();
            tokio::spawn(async move { delete::remove(&pod, &container).await })
        })
        .collect();
    let mut first = Ok(());
    for removal in removals {
        let result = removal.await.unwrap_or_else(|error| Err(CallError::Panicked(error.to_string())));
        first = first.and(result);
    }
    first?;
    if let Some(sandbox) = pod.sandbox.lock().await.take() {
        sandbox.end().await;
    }
    pod.journal.close();
    pod.ending.send_replace(true);
    Ok(())
}
