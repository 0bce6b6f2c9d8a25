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
    let puller = app.puller.clone();
    let settle = move || {
        settle_layers(&meta, &boot_id, |trusted| {
            let found = puller.recover(trusted).map_err(|error| berth_core::error::chain(&error))?;
            for image in &found.images {
                tracing::warn!(
                    image,
                    "a layer of the image is gone or never reached the disk; it has to be pulled again"
                );
            }
            if !found.stuck.is_empty() {
                tracing::warn!(layers = ?found.stuck, "layers could not be removed; the next start tries again");
            }
            Ok(())
        });
    };
    app.blocking.run("settle layers", settle).await?;
    recovery::recover(&app.pods).await?;
    Ok(())
}

/// Settles layers by `recover`, which is told whether to trust those that were never synced: they are whole only if the machine
/// has been up since the last daemon. This boot is noted when that is done and not before: where it failed, or was cut short,
/// the next start trusts them no more than this one.
fn settle_layers(meta: &Meta, boot_id: &str, recover: impl FnOnce(bool) -> Result<(), String>) {
    let before = meta.boot().unwrap_or_else(|error| {
        tracing::error!(%error, "the last boot cannot be read");
        None
    });
    let trusted = before.as_deref() == Some(boot_id);
    if let Err(error) = recover(trusted) {
        tracing::error!(error, "layers could not be settled; images may have to be pulled again");
        return;
    }
    if !trusted && let Err(error) = meta.note_boot(boot_id) {
        tracing::error!(%error, "this boot could not be noted");
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
        let settle = |boot: &str, outcome: Result<(), String>| {
            let mut told = None;
            settle_layers(&meta, boot, |trusted| {
                told = Some(trusted);
                outcome
            });
            told
        };
        let fine = ["a", "a", "b", "a", "a"].map(|boot| settle(boot, Ok(())));
        assert_eq!(fine, [false, true, false, false, true].map(Some));
        // Not settled is not trusted, however often this boot comes again.
        let failed = || Err("the disk is full".to_owned());
        assert_eq!([settle("c", failed()), settle("c", failed()), settle("c", Ok(()))], [Some(false); 3]);
        assert_eq!(settle("c", Ok(())), Some(true));
    }
}
