//! The first and the last steps of a daemon's life: settling what earlier daemons left, and leaving in order.
//!
//! Nothing here may keep a node down. A full or failing disk costs what has to be written, and the log says so; reads,
//! stops and removals go on.

use crate::app::App;
use crate::recovery;
use berth_store::Meta;
use std::sync::Arc;
use std::time::Duration;

/// Key of the note whether the last daemon ended in order.
const CLEAN: &str = "clean_end";
/// A note that could not be written is tried again this often.
const AGAIN: Duration = Duration::from_secs(30);

/// Reads back what earlier daemons left, and settles it.
///
/// # Errors
/// The records cannot be read at all.
pub async fn recover(app: &Arc<App>) -> anyhow::Result<()> {
    let (meta, boot_id) = (app.store.meta(), app.host.boot_id.clone());
    let clean = app.blocking.run("note the start", move || was_clean(&meta, &boot_id)).await?;
    if !clean.noted {
        tokio::spawn(note_later(Arc::clone(app)));
    }
    let (puller, trusted) = (app.puller.clone(), clean.trusted);
    match app.blocking.run("settle layers", move || puller.recover(trusted)).await? {
        Ok(found) if !found.stuck.is_empty() => {
            tracing::warn!(layers = ?found.stuck, "layers could not be removed; the next start tries again");
        }
        Ok(_) => {}
        Err(error) => {
            let error = berth_core::error::chain(&error);
            tracing::error!(error, "layers could not be settled; images may have to be pulled again");
        }
    }
    recovery::recover(&app.pods).await?;
    Ok(())
}

/// What the store says about the end of the last daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clean {
    /// What was not synced can be trusted: the machine did not go down, or the daemon had synced before.
    trusted: bool,
    /// It stands in the store that this daemon has not ended yet.
    noted: bool,
}

fn was_clean(meta: &Meta, boot_id: &str) -> Clean {
    let before = meta.note_boot(boot_id).or_else(|error| {
        tracing::error!(%error, "this boot could not be noted");
        meta.get("boot_id")
    });
    let told = |error| tracing::error!(%error, "the records of the last end cannot be read");
    let same_boot = before.map_err(told).ok().flatten().as_deref() == Some(boot_id);
    let ended = meta.get(CLEAN).map_err(told).ok().flatten().as_deref() == Some("yes");
    let noted = meta.set(CLEAN, "no");
    if let Err(error) = &noted {
        tracing::error!(%error, "the start could not be noted; tried again until it can");
    }
    Clean { trusted: same_boot || ended, noted: noted.is_ok() }
}

async fn note_later(app: Arc<App>) {
    loop {
        tokio::time::sleep(AGAIN).await;
        let meta = app.store.meta();
        if matches!(app.blocking.run("note the start", move || meta.set(CLEAN, "no")).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// After the last call: pods stay, everything else is put away.
pub async fn close(app: &Arc<App>) {
    let last = Arc::clone(app);
    let left = app.blocking.run("leave in order", move || {
        if let Err(error) = last.network.retire() {
            tracing::warn!(%error, "the built-in network was left as it is");
        }
        leave(&last.store.meta(), || last.snapshots.sync());
    });
    if let Err(error) = left.await {
        tracing::warn!(%error, "the end was not in order");
    }
    tracing::info!("ended");
}

/// The next boot trusts layers that were never synced one by one, so all must be on disk before that is said.
fn leave<E: std::fmt::Display>(meta: &Meta, sync: impl FnOnce() -> Result<(), E>) {
    if let Err(error) = sync() {
        tracing::warn!(%error, "layers may not be on disk: unfinished ones are dropped after a reboot");
        return;
    }
    if let Err(error) = meta.set(CLEAN, "yes") {
        tracing::warn!(%error, "the clean end could not be noted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::Store;

    #[test]
    fn only_a_synced_end_or_the_same_boot_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let meta = store.meta();
        let trusted = |boot| was_clean(&meta, boot).trusted;
        assert!(!trusted("a"), "a first start trusts nothing");
        assert!(trusted("a"));
        assert!(!trusted("b"), "the machine went down under a running daemon");
        leave(&meta, || Ok::<(), String>(()));
        assert!(trusted("c"));
        assert!(!trusted("d"), "the end of a boot ago says nothing");
        leave(&meta, || Err("lost write"));
        assert!(!trusted("e"), "what did not reach the disk is trusted");
    }
}
