//! StartContainer.

use crate::pod::machine::Request;
use crate::pod::{Error, Pods};

/// Starts a container's program.
///
/// # Errors
/// No such container, a state that does not allow it, or why the program could not be started; the container is then
/// exited with that reason.
pub async fn start(pods: &Pods, id: &str) -> Result<(), Error> {
    let (sandbox, id) = pods.find_container(id)?;
    pods.ask(sandbox, Request::Start(id)).await.map(drop)
}
