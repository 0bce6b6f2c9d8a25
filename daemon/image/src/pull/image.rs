//! One pull from reference to record.

use super::Shared;
use super::configuration::{self, Configuration, LayerSpec};
use super::error::ErrorKind;
use super::layer::{self, Done, Work};
use super::locks::Pin;
use crate::auth::RegistryAuth;
use crate::index::PulledImage;
use crate::platform::Platform;
use crate::progress::{Event, LayerInfo, Progress};
use crate::reference::Reference;
use crate::registry::manifest::{self, Manifest};
use crate::registry::session::Session;
use crate::registry::{blob, hosts};
use berth_snapshot::{LayerKey, LayerRecord};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pulls `reference`. Dropping the future ends it; finished layers stay for the next try, as long as what is put into
/// `kept` lives.
pub(super) async fn pull(
    shared: &Arc<Shared>,
    reference: &Reference,
    auth: &RegistryAuth,
    platform: &Platform,
    progress: Progress,
    kept: &OnceLock<Pin>,
) -> Result<PulledImage, ErrorKind> {
    let session = session(shared, reference, auth, progress.clone()).await?;
    let manifest = manifest::resolve(&session, reference, platform).await?;
    let (digest, endpoint) = (manifest.resolved.clone(), manifest.endpoint.clone());
    progress.tell(Event::Resolved { digest, endpoint });
    let configuration = configuration(&session, &manifest, platform).await?;
    let specs = configuration::layers(&manifest, &configuration);
    let info = |spec: &LayerSpec| LayerInfo { digest: spec.blob.digest.clone(), size: spec.blob.size };
    progress.tell(Event::Layers(specs.iter().map(info).collect()));
    // From here to the record no layer that may be used can be collected.
    let keys = specs
        .iter()
        .flat_map(|spec| [LayerKey::self_contained(&spec.diff_id), LayerKey::chained(&spec.chain_id)])
        .collect();
    let pins = Arc::clone(&shared.pins);
    let _ = kept.set(shared.threads.run(move || Ok(pins.pin(keys))).await?);
    let slots = Semaphore::new(shared.options.max_parallel_layers.max(1));
    let work = Arc::new(Work { shared: Arc::clone(shared), session, progress: progress.clone(), slots });
    let records = layers(&work, specs).await?;
    progress.tell(Event::Syncing);
    let image = PulledImage {
        id: manifest.config.digest.clone(),
        repo_tag: reference.repo_tag(),
        repo_digest: reference.repo_digest(&manifest.resolved),
        config: configuration.config,
        size: records.iter().map(|record| record.bytes).sum(),
        layers: records.into_iter().map(|record| record.key).collect(),
    };
    commit(shared, image).await
}

async fn session(
    shared: &Arc<Shared>,
    reference: &Reference,
    auth: &RegistryAuth,
    progress: Progress,
) -> Result<Session, ErrorKind> {
    let (certs_dir, host) = (shared.options.certs_dir.clone(), reference.host().to_owned());
    let endpoints = shared.threads.run(move || Ok(hosts::load(&certs_dir, &host)?)).await?;
    Ok(Session::new(Arc::clone(&shared.http), endpoints, reference, auth, progress)?)
}

async fn configuration(
    session: &Session,
    manifest: &Manifest,
    platform: &Platform,
) -> Result<Configuration, ErrorKind> {
    let what = format!("image configuration {}", manifest.config.digest);
    let bytes = blob::small(session, &what, &manifest.config, configuration::MAX_CONFIG).await?;
    configuration::parse(&bytes, manifest, platform)
}

/// All layers at once, as far as slots allow; those that need the ones below are finished in order. The first failure
/// ends the others.
async fn layers(work: &Arc<Work>, specs: Vec<LayerSpec>) -> Result<Vec<LayerRecord>, ErrorKind> {
    let mut waiting: Vec<Option<Done>> = specs.iter().map(|_| None).collect();
    let mut tasks = JoinSet::new();
    for spec in specs {
        let (work, position) = (Arc::clone(work), spec.position);
        tasks.spawn(async move { (position, layer::run(work, spec).await) });
    }
    let mut placed: Vec<LayerRecord> = Vec::with_capacity(waiting.len());
    while let Some(ended) = tasks.join_next().await {
        let (position, done) = ended.map_err(|error| ErrorKind::Internal(error.to_string()))?;
        if let Some(slot) = waiting.get_mut(position) {
            *slot = Some(done?);
        }
        while let Some(done) = waiting.get_mut(placed.len()).and_then(Option::take) {
            let record = match done {
                Done::Placed(record) => record,
                Done::Staged(staged) => {
                    let below = placed.iter().map(|record| record.key.clone()).collect();
                    layer::finish(work, *staged, below).await?
                }
            };
            placed.push(record);
        }
    }
    Ok(placed)
}

/// What was written reaches the disk before any record says that the image is there.
async fn commit(shared: &Arc<Shared>, image: PulledImage) -> Result<PulledImage, ErrorKind> {
    let (shared, threads) = (Arc::clone(shared), shared.threads.clone());
    let committed = threads.run(move || {
        let unsynced =
            |key: &LayerKey| shared.layers.layer(key).map(|found| found.is_none_or(|layer| !layer.synced));
        let mut any = false;
        for key in &image.layers {
            any |= unsynced(key)?;
        }
        if any {
            shared.snapshots.sync()?;
        }
        shared.images.commit_image(&image)?;
        Ok(image)
    });
    committed.await
}
