//! RemovePodSandbox.

use crate::pod::machine::Request;
use crate::pod::{Error, Pods};

/// Removes a sandbox and its containers, by force if need be. Nothing there is success.
///
/// # Errors
/// Something could not be removed; it can be tried again.
pub async fn remove(pods: &Pods, id: &str) -> Result<(), Error> {
    let id = match pods.find_sandbox(id) {
        Err(Error::NoSandbox(_)) => return Ok(()),
        found => found?,
    };
    match pods.ask(id, Request::RemoveSandbox).await {
        Err(Error::NoSandbox(_)) => Ok(()),
        done => done.map(drop),
    }
}
