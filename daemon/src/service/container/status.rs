//! ContainerStatus.

use crate::container::ContainerRecord;
use crate::pod::{Error, Pods};
use std::sync::Arc;

/// A container.
///
/// # Errors
/// There is no such container.
pub fn status(pods: &Pods, id: &str) -> Result<Arc<ContainerRecord>, Error> {
    let (sandbox, found) = pods.find_container(id)?;
    let view = pods.view(sandbox);
    let record = view.as_ref().and_then(|view| view.containers.get(&found));
    record.cloned().ok_or_else(|| Error::NoContainer(id.to_owned()))
}
