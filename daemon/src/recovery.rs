//! What is read and settled when the daemon starts. The kernel is right before the shim, the shim before the store.
//!
//! Every record ends as something that lists show and that can be removed; what cannot be read is shown NotReady or
//! Unknown. Pods are settled beside each other, so that thirty take no longer than the slowest one.

mod read;
mod settle;

use crate::container::ContainerRecord;
use crate::gc;
use crate::gc::attachments::Known;
use crate::pod::{Error, Ground, Pods, Row};
use crate::sandbox::SandboxRecord;
use berth_core::{ContainerId, SandboxId};
use berth_network::Attachment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A sandbox and its containers as the store has them.
pub(crate) struct Stored {
    /// The sandbox.
    pub(crate) sandbox: SandboxRecord,
    /// Its containers.
    pub(crate) containers: Vec<ContainerRecord>,
}

/// Reads every record, settles each, hands the pods to their actors and collects what no record knows.
///
/// # Errors
/// The store cannot be read at all.
pub async fn recover(pods: &Pods) -> Result<(), Error> {
    let began = std::time::Instant::now();
    let ground = Arc::clone(pods.ground());
    let base = Arc::clone(&ground);
    let (stored, strays) = ground.block("read the records", move || read::read(&base)).await?;
    let (sandboxes, containers) = known(&stored);
    let base = Arc::clone(&ground);
    let attachments: Vec<_> = stored.iter().filter_map(attachment).collect();
    let whole = strays.is_empty() && stored.iter().all(is_whole);
    let restored = ground.block("restore the network", move || restore_network(&base, attachments, whole));
    let attachments = restored.await;
    let count = stored.len();
    let settling: Vec<_> =
        stored.into_iter().map(|pod| tokio::spawn(settle::settle(Arc::clone(&ground), pod))).collect();
    for pod in settling {
        match pod.await {
            Ok(Some(restored)) => pods.restore(restored),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "a pod could not be settled; the next start tries again"),
        }
    }
    forget(&ground, strays).await;
    gc::collect(&ground, &sandboxes, &containers).await;
    match attachments {
        Ok(known) => gc::attachments::settle(&ground, known),
        Err(error) => tracing::error!(%error, "the attachments of pods could not be read"),
    }
    tokio::spawn(gc::leftover::keep_trying(ground));
    tracing::info!(pods = count, took = ?began.elapsed(), "records are settled");
    Ok(())
}

/// Brings the network of running pods back, and gives every attachment there is.
fn restore_network(ground: &Ground, mut all: Vec<Attachment>, whole: bool) -> Result<Known, Error> {
    let (leftovers, readable) = gc::leftover::all(ground);
    all.extend(leftovers.into_iter().map(|(_, leftover)| leftover.attachment));
    if let Err(error) = ground.network.restore(&all) {
        let error = berth_core::error::chain(&error);
        tracing::error!(error, "the network of running pods could not be restored");
    }
    Ok(Known { all, whole: whole && readable })
}

/// A damaged record may hide an attachment.
fn is_whole(pod: &Stored) -> bool {
    !pod.sandbox.is_damaged()
}

fn known(stored: &[Stored]) -> (BTreeSet<SandboxId>, BTreeSet<ContainerId>) {
    let sandboxes = stored.iter().map(|pod| pod.sandbox.id).collect();
    let containers = stored.iter().flat_map(|pod| pod.containers.iter().map(|record| record.id)).collect();
    (sandboxes, containers)
}

fn attachment(pod: &Stored) -> Option<Attachment> {
    pod.sandbox.attachment().cloned()
}

/// Rows that name no pod. What they once stood for is collected like everything without a record.
async fn forget(ground: &Arc<Ground>, strays: Vec<Row>) {
    if strays.is_empty() {
        return;
    }
    tracing::warn!(rows = ?strays, "records that name no pod are deleted");
    if let Err(error) = ground.save(strays).await {
        tracing::error!(%error, "records that name no pod could not be deleted");
    }
}

/// Containers by their sandbox.
pub(crate) type BySandbox = BTreeMap<SandboxId, Vec<ContainerRecord>>;
