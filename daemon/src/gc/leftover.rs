//! Attachments that outlived their pods: kept in the store, tried again until they can be detached.

use crate::blocking::Room;
use crate::pod::{Error, Ground};
use berth_core::{SandboxId, Timestamp};
use berth_network::cni::leftover::{Failures, Leftover};
use std::sync::Arc;
use std::time::Duration;

/// How often the queue is looked at.
const EVERY: Duration = Duration::from_secs(30);

/// Seconds since the epoch.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().nanos() / 1_000_000_000).unwrap_or(0)
}

/// Puts an attachment into the queue. Blocking.
///
/// # Errors
/// The store cannot be written; the pod must keep its attachment then.
pub(crate) fn park(ground: &Ground, id: SandboxId, leftover: Leftover) -> Result<(), Error> {
    let message = &leftover.failures.message;
    tracing::error!(sandbox = %id, message, "an attachment could not be detached; the pod goes, it is tried again");
    let kept = ground.store.attachments().put(id.as_str(), &leftover);
    kept.map_err(|error| Error::step("keep the leftover attachment", &error))
}

/// Every leftover that can be read, and whether that is all of them. Blocking.
pub(crate) fn all(ground: &Ground) -> (Vec<(String, Leftover)>, bool) {
    let Ok(rows) = ground.store.attachments().all_raw() else { return (Vec::new(), false) };
    let count = rows.len();
    let read = rows.into_iter().filter_map(|(key, bytes)| Some((key, serde_json::from_slice(&bytes).ok()?)));
    let read: Vec<_> = read.collect();
    let whole = read.len() == count;
    (read, whole)
}

/// Tries the queue again and again, as long as the daemon runs.
pub(crate) async fn keep_trying(ground: Arc<Ground>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let base = Arc::clone(&ground);
        let tried = ground.block_in(Room::Detach, "try leftover attachments", move || {
            for (key, leftover) in all(&base).0.into_iter().filter(|(_, leftover)| leftover.is_due(now())) {
                try_again(&base, &key, leftover)?;
            }
            Ok(())
        });
        if let Err(error) = tried.await {
            tracing::warn!(%error, "leftover attachments could not be tried");
        }
    }
}

fn try_again(ground: &Ground, key: &str, leftover: Leftover) -> Result<(), Error> {
    let rows = ground.store.attachments();
    let kept = match ground.network.teardown(&leftover.attachment) {
        Ok(()) => {
            tracing::info!(sandbox = key, "a leftover attachment is detached");
            rows.delete(key)
        }
        Err(error) => {
            let failures = Failures::note(Some(&leftover.failures), now(), &error);
            rows.put(key, &Leftover { failures, ..leftover })
        }
    };
    kept.map_err(|error| Error::step("keep the leftover attachment", &error))
}
