//! StopPodSandbox.

use crate::pod::machine::Request;
use crate::pod::{Error, Pods};

/// Stops a sandbox: its containers, its network, its shim. Done already, or nothing there, is success.
///
/// # Errors
/// Something could not be stopped or detached; it can be tried again.
pub async fn stop(pods: &Pods, id: &str) -> Result<(), Error> {
    let id = match pods.find_sandbox(id) {
        Err(Error::NoSandbox(_)) => return Ok(()),
        found => found?,
    };
    match pods.ask(id, Request::StopSandbox).await {
        Err(Error::NoSandbox(_)) => Ok(()),
        done => done.map(drop),
    }
}
