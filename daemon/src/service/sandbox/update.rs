//! UpdatePodSandboxResources.

use crate::pod::{Error, Pods};

/// Hears that a pod's limits have changed. The caller has written the pod's cgroup before it tells so, and a sandbox
/// has no limits of its own: there is nothing to do but to know it.
///
/// # Errors
/// There is no such sandbox.
pub fn update(pods: &Pods, id: &str) -> Result<(), Error> {
    super::status(pods, id).map(drop)
}
