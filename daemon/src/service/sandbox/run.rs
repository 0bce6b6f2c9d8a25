//! RunPodSandbox.

use crate::pod::{Error, Pods};
use crate::sandbox::{SandboxConfig, check};
use berth_core::SandboxId;

/// Makes a sandbox, joins the operation that makes it, or finds the one that was asked for before.
///
/// # Errors
/// A wrong field, a sandbox in the way, or the step that failed; then nothing is left.
pub async fn run(pods: &Pods, config: SandboxConfig, handler: &str) -> Result<SandboxId, Error> {
    check(&config, handler, pods.ground().driver)?;
    pods.run(config, handler).await
}
