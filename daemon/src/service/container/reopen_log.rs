//! ReopenContainerLog.

use crate::container;
use crate::pod::{Error, Pods};

/// Opens a container's log anew after it was rotated. Works as long as it runs, also while it is being stopped.
///
/// # Errors
/// No such container, not running, or the file cannot be opened.
pub async fn reopen_log(pods: &Pods, id: &str) -> Result<(), Error> {
    let (sandbox, found) = pods.find_container(id)?;
    let view = pods.view(sandbox).ok_or_else(|| Error::NoContainer(id.to_owned()))?;
    let record = view.containers.get(&found).ok_or_else(|| Error::NoContainer(id.to_owned()))?;
    if !record.is_running() {
        let (object, state) = (format!("container {found}"), record.state_word().to_owned());
        return Err(Error::State { act: "ReopenContainerLog", object, state });
    }
    container::reopen_log(view.shim.as_ref(), found).await
}
