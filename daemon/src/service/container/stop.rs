//! StopContainer.

use crate::pod::machine::Request;
use crate::pod::{Error, Pods};
use std::time::Duration;

/// Stops a container with a grace period. Stopped already, or nothing there, is success.
///
/// # Errors
/// It could not be stopped; it can be tried again.
pub async fn stop(pods: &Pods, id: &str, grace: Duration) -> Result<(), Error> {
    let (sandbox, id) = match pods.find_container(id) {
        Err(Error::NoContainer(_)) => return Ok(()),
        found => found?,
    };
    match pods.ask(sandbox, Request::Stop(id, grace)).await {
        Err(Error::NoSandbox(_)) => Ok(()),
        done => done.map(drop),
    }
}
