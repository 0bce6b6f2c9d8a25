//! CreateContainer.

use crate::container::{ContainerConfig, check, fits};
use crate::pod::machine::{Reply, Request};
use crate::pod::{Error, Pods};
use berth_core::ContainerId;

/// Makes a container in a sandbox, joins the operation that makes it, or finds the one that was asked for before.
///
/// # Errors
/// A wrong field, no such sandbox or one that is not ready, a container in the way, or the step that failed; then
/// nothing is left.
pub async fn create(pods: &Pods, sandbox: &str, config: ContainerConfig) -> Result<ContainerId, Error> {
    check(&config)?;
    let id = pods.find_sandbox(sandbox)?;
    let view = pods.view(id).ok_or_else(|| Error::NoSandbox(sandbox.to_owned()))?;
    let record = view.sandbox.as_ref().ok_or_else(|| Error::NoSandbox(sandbox.to_owned()))?;
    fits(&config, &record.config)?;
    let draft = pods.draft(&record.config, config)?;
    match pods.ask(id, Request::Create(draft)).await? {
        Reply::Container(id) => Ok(id),
        _ => Err(Error::internal("create container", "unexpected answer")),
    }
}
