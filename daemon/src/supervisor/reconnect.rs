//! A shim that did not answer when the daemon started: asked again, for minutes, before anybody is killed.

use super::{Found, Shim, find};
use crate::pod::PodPaths;
use berth_core::SandboxId;
use berth_proto::shim::{ContainerState, ListRequest};
use std::time::{Duration, Instant};

/// Pause before the first try; doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// A shim that is deaf for so long is dead.
const DEAF_AFTER: Duration = Duration::from_secs(180);

/// Tries until the shim answers, and gives it with what it tells of its containers; or says why it is lost.
///
/// # Errors
/// Its process has ended, or it was deaf for minutes and has been killed.
pub(crate) async fn reconnect(
    paths: &PodPaths,
    id: SandboxId,
    pid: Option<u32>,
) -> Result<(Shim, Vec<ContainerState>), String> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let (process, foreign, why) = match find(paths, id, pid).await {
            Found::Nobody => return Err("the shim's process ended while the daemon was away".to_owned()),
            Found::Shim(shim) => match shim.list(&ListRequest {}).await {
                Ok(told) => return Ok((shim, told.containers)),
                Err(why) => (shim.process().cloned(), false, why),
            },
            Found::Mute { process, foreign, why } => (process, foreign, why),
        };
        tracing::warn!(sandbox = %id, %why, "a shim does not answer; its pod is left as it is and it is asked again");
        if let Some(process) = process.filter(|_| !foreign && began.elapsed() > DEAF_AFTER) {
            if let Err(error) = process.kill_and_wait(id).await {
                tracing::error!(sandbox = %id, %error, "a deaf shim could not be killed");
                continue;
            }
            return Err(format!("the shim did not answer for {} s and was killed", DEAF_AFTER.as_secs()));
        }
    }
}
