//! The first and the last steps of a daemon's life: settling what earlier daemons left, and leaving in order.
//!
//! Nothing here may keep a node down. A full or failing disk costs what has to be written, and the log says so; reads,
//! stops and removals go on.

use crate::app::App;
use crate::recovery;
use berth_store::Meta;
use std::sync::Arc;

/// Reads back what earlier daemons left, and settles it.
///
/// # Errors
/// The records cannot be read at all.
pub async fn recover(app: &Arc<App>) -> anyhow::Result<()> {
    let (meta, boot_id) = (app.store.meta(), app.host.boot_id.clone());
    let trusted = app.blocking.run("note this boot", move || same_boot(&meta, &boot_id)).await?;
    let puller = app.puller.clone();
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

/// Whether the machine has been up since the last daemon: then the kernel still has what was never synced, which is only
/// what failed pulls left. Where that cannot be told, or cannot be noted for the next start, it counts as gone.
fn same_boot(meta: &Meta, boot_id: &str) -> bool {
    match meta.note_boot(boot_id) {
        Ok(before) => before.as_deref() == Some(boot_id),
        Err(error) => {
            tracing::error!(%error, "this boot could not be noted");
            false
        }
    }
}

/// After the last call: pods stay, everything else is put away.
pub async fn close(app: &Arc<App>) {
    let network = Arc::clone(&app.network);
    match app.blocking.run("put the network away", move || network.retire()).await {
        Ok(Err(error)) => tracing::warn!(%error, "the built-in network was left as it is"),
        Err(error) => tracing::warn!(%error, "the end was not in order"),
        Ok(Ok(_)) => {}
    }
    tracing::info!("ended");
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::Store;

    #[test]
    fn what_was_not_synced_is_trusted_only_in_the_same_boot() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let meta = store.meta();
        let found = ["a", "a", "b", "a", "a"].map(|boot| same_boot(&meta, boot));
        assert_eq!(found, [false, true, false, false, true]);
    }
}
