//! What nobody refers to any more: collected once at the start, when every record is known.
//!
//! Only things that carry this daemon's own marks are touched: directories and sockets below its state directory,
//! writable layers below its root.

pub(crate) mod attachments;
pub(crate) mod leftover;

use crate::patience::in_time;
use crate::pod::{Error, Ground, PodPaths};
use crate::{sandbox, supervisor};
use berth_core::{ContainerId, SandboxId};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Collects shims, directories and layers that no record knows.
pub(crate) async fn collect(
    ground: &Arc<Ground>,
    sandboxes: &BTreeSet<SandboxId>,
    containers: &BTreeSet<ContainerId>,
) {
    let pods = ground.state.join("p");
    let listed = ground.block("list the pods' directories", move || Ok(names(&pods))).await;
    let ids = listed.unwrap_or_default().into_iter().filter_map(|name| SandboxId::parse(&name).ok());
    let strays = ids.filter(|id| !sandboxes.contains(id)).map(|id| {
        let ground = Arc::clone(ground);
        in_time(id, "end a pod without a record", async move { told(id.as_str(), pod(&ground, id).await) })
    });
    futures_util::future::join_all(strays).await;
    let base = Arc::clone(ground);
    let known = containers.clone();
    let layers = ground.block("collect writable layers", move || {
        for name in base.snapshots.containers().unwrap_or_default() {
            if ContainerId::parse(&name).is_ok_and(|id| !known.contains(&id)) {
                let removed = base.snapshots.container_remove(&name);
                told(&name, removed.map_err(|error| Error::internal("remove a writable layer", error)));
            }
        }
        Ok(())
    });
    told("writable layers", layers.await);
}

/// A pod without a record: its shim is ended, which kills what it runs, and its directory removed.
async fn pod(ground: &Arc<Ground>, id: SandboxId) -> Result<(), Error> {
    let paths = PodPaths::new(&ground.state, id);
    supervisor::end_at(&paths, id, None).await?;
    let swept = ground.block("remove a directory without a record", move || {
        let _ = std::fs::remove_file(&paths.socket);
        sandbox::sweep(&paths.dir)
    });
    swept.await
}

fn told(what: &str, result: Result<(), Error>) {
    match result {
        Ok(()) => tracing::debug!(what, "collected what no record knows"),
        Err(error) => tracing::warn!(what, %error, "something that no record knows could not be removed"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
