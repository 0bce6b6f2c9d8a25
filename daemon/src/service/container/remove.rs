//! RemoveContainer.

use crate::pod::machine::Request;
use crate::pod::{Error, Pods};

/// Removes a container, by force if it runs. Nothing there is success.
///
/// # Errors
/// It could not be removed; it can be tried again.
pub async fn remove(pods: &Pods, id: &str) -> Result<(), Error> {
    let (sandbox, id) = match pods.find_container(id) {
        Err(Error::NoContainer(_)) => return Ok(()),
        found => found?,
    };
    match pods.ask(sandbox, Request::Remove(id)).await {
        Err(Error::NoSandbox(_)) => Ok(()),
        done => done.map(drop),
    }
}
