//! One layer: find it, or fetch and unpack it, and put it in its place.

use super::configuration::LayerSpec;
use super::error::ErrorKind;
use super::locks::Held;
use super::sink::{self, LayerSink, Way};
use super::{Shared, Spool};
use crate::progress::{Event, Progress};
use crate::registry::blob::{BlobError, Stream};
use crate::registry::session::Session;
use crate::unpack::finish;
use crate::unpack::job::{Job, JobError};
use crate::unpack::report::Report;
use berth_snapshot::{LayerKey, LayerMeta, LayerRecord, Staging};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What the layers of one pull share.
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Session,
    pub(super) progress: Progress,
    pub(super) slots: Semaphore,
}

/// A layer whose own work is done.
pub(super) enum Done {
    /// In its place.
    Placed(LayerRecord),
    /// Unpacked, but it needs the layers below before it can have its place.
    Staged(Box<Staged>),
}

/// An unpacked layer that needs the layers below.
pub(super) struct Staged {
    spec: LayerSpec,
    staging: Staging,
    report: Report,
    /// Nobody else makes this layer meanwhile.
    _chain: Held,
}

/// Runs blocking work away from the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorKind> + Send + 'static,
) -> Result<T, ErrorKind> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(ErrorKind::Internal(error.to_string())))
}

/// Brings one layer as far as it gets alone.
pub(super) async fn run(work: Arc<Work>, spec: LayerSpec) -> Result<Done, ErrorKind> {
    let chain = work.shared.locks.chain(&spec.chain_id).await;
    if let Some(record) = present(&work, &spec).await? {
        return Ok(Done::Placed(record));
    }
    let diff = work.shared.locks.diff(&spec.diff_id).await;
    if let Some(record) = present(&work, &spec).await? {
        return Ok(Done::Placed(record));
    }
    let slot = work.slots.acquire().await.map_err(|error| ErrorKind::Internal(error.to_string()))?;
    let (staging, report) = fetch(&work, &spec).await?;
    drop(slot);
    work.progress.tell(Event::Applied { layer: spec.position, bytes: report.tar_bytes });
    if !report.needs.is_empty() {
        drop(diff);
        return Ok(Done::Staged(Box::new(Staged { spec, staging, report, _chain: chain })));
    }
    let shared = Arc::clone(&work.shared);
    let key = LayerKey::self_contained(&spec.diff_id);
    blocking(move || place(&shared, &spec, staging, &report, key)).await.map(Done::Placed)
}

/// The layer, if it is here: by itself, or finished against the very same layers below.
async fn present(work: &Arc<Work>, spec: &LayerSpec) -> Result<Option<LayerRecord>, ErrorKind> {
    let keys = [LayerKey::self_contained(&spec.diff_id), LayerKey::chained(&spec.chain_id)];
    let (shared, position) = (Arc::clone(&work.shared), spec.position);
    let found = blocking(move || {
        for key in keys {
            if let Some(record) = shared.layers.layer(&key)?
                && shared.snapshots.layer_exists(&key)
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    });
    let found = found.await?;
    if found.is_some() {
        work.progress.tell(Event::Present { layer: position });
    }
    Ok(found)
}

/// Fetches and unpacks at the same time. Both ends tell of a failure by closing their side.
async fn fetch(work: &Arc<Work>, spec: &LayerSpec) -> Result<(Staging, Report), ErrorKind> {
    let (mut sink, worker) = start(work, spec).await?;
    let (progress, layer) = (work.progress.clone(), spec.position);
    let told = std::sync::atomic::AtomicU64::new(0);
    let tell = |bytes: u64| {
        // One event per 256 KiB and one at the end are enough for any display.
        let before = told.load(std::sync::atomic::Ordering::Relaxed);
        if bytes - before >= 256 << 10 || bytes == spec.blob.size {
            told.store(bytes, std::sync::atomic::Ordering::Relaxed);
            progress.tell(Event::Fetched { layer, bytes });
        }
    };
    let stream = Stream::new(&work.session, spec.position, &spec.blob);
    let fetched = match stream.fetch(&mut sink, &tell).await {
        Ok(()) => sink.finish().await.map_err(|_| BlobError::SinkGone),
        Err(error) => {
            drop(sink);
            Err(error)
        }
    };
    let unpacked = worker.await.unwrap_or_else(|error| Err(ErrorKind::Internal(error.to_string())));
    match (fetched, unpacked) {
        (Err(BlobError::Registry(error)), _) => Err(error.into()),
        (_, Err(error)) => Err(error),
        (Err(BlobError::SinkGone), Ok(_)) => {
            Err(ErrorKind::Internal("the worker ended early and well".into()))
        }
        (Ok(()), Ok((_, report))) if report.diff_id != spec.diff_id => {
            let (digest, wanted) = (spec.blob.digest.clone(), spec.diff_id.clone());
            Err(ErrorKind::DiffId { digest, wanted, found: report.diff_id })
        }
        (Ok(()), Ok(done)) => Ok(done),
    }
}

type Worker = tokio::task::JoinHandle<Result<(Staging, Report), ErrorKind>>;

/// Starts the worker. The task that waits for it owns the staged directory, so that a given-up layer is removed only
/// after its worker is gone.
async fn start(work: &Arc<Work>, spec: &LayerSpec) -> Result<(LayerSink, Worker), ErrorKind> {
    let (shared, spec) = (Arc::clone(&work.shared), spec.clone());
    let started = blocking(move || {
        let staging = shared.snapshots.layer_stage()?;
        let Way { mut sink, data, source } = way(shared.options.spool, &staging, spec.blob.size)?;
        let options = &shared.options;
        let (dir, algorithm) = (staging.open()?, spec.diff_id.algorithm());
        let fail = layer_error(&spec);
        let job = Job::start(&options.worker, dir, data, source, algorithm, options.limits).map_err(&fail)?;
        if let LayerSink::Spool(spooled) = &mut sink {
            spooled.socket = Some(job.socket().map_err(internal)?);
        }
        Ok((sink, job, staging, spec))
    });
    let (sink, job, staging, spec) = started.await?;
    let worker = tokio::task::spawn_blocking(move || {
        let report = job.wait().map_err(layer_error(&spec))?;
        Ok((staging, report))
    });
    Ok((sink, worker))
}

fn way(spool: Spool, staging: &Staging, size: u64) -> Result<Way, ErrorKind> {
    let way = if spool.wants(size) { sink::spool(staging.path(), size) } else { sink::pipe(size) };
    way.map_err(internal)
}

fn internal(error: std::io::Error) -> ErrorKind {
    ErrorKind::Internal(error.to_string())
}

fn layer_error(spec: &LayerSpec) -> impl Fn(JobError) -> ErrorKind + use<> {
    let digest = spec.blob.digest.clone();
    move |source| ErrorKind::Layer { digest: digest.clone(), source }
}

/// Settles a staged layer against those below it (bottom first), all in their places, and gives it its own.
pub(super) async fn finish(
    work: &Arc<Work>,
    staged: Staged,
    below: Vec<LayerKey>,
) -> Result<LayerRecord, ErrorKind> {
    let shared = Arc::clone(&work.shared);
    blocking(move || {
        let Staged { spec, staging, report, _chain } = staged;
        let mut parents = Vec::with_capacity(below.len());
        for key in below.iter().rev() {
            parents.push(shared.snapshots.layer_open(key)?);
            if shared.snapshots.layer_meta(key)?.opaque_root {
                break;
            }
        }
        let root = open_fs(&staging)?;
        let digest = spec.blob.digest.clone();
        finish::settle(root.as_fd(), &parents, &report.needs)
            .map_err(|source| ErrorKind::Finish { digest, source })?;
        let key = LayerKey::chained(&spec.chain_id);
        place(&shared, &spec, staging, &report, key)
    })
    .await
}

fn open_fs(staging: &Staging) -> Result<std::os::fd::OwnedFd, ErrorKind> {
    let dir = staging.open()?;
    crate::unpack::apply::tree::open_dir(dir.as_fd(), b"fs").map_err(|errno| internal(errno.into()))
}

fn place(
    shared: &Shared,
    spec: &LayerSpec,
    staging: Staging,
    report: &Report,
    key: LayerKey,
) -> Result<LayerRecord, ErrorKind> {
    let root = open_fs(&staging)?;
    let digest = || spec.blob.digest.clone();
    finish::mark_opaque(root.as_fd(), report)
        .map_err(|source| ErrorKind::Finish { digest: digest(), source })?;
    let meta = LayerMeta { version: 1, root: report.root, opaque_root: report.opaque_root };
    shared.snapshots.layer_commit(staging, &key, &meta)?;
    let (bytes, inodes) = (report.bytes, report.inodes);
    let record = LayerRecord { key, diff_id: spec.diff_id.clone(), bytes, inodes, synced: false };
    shared.layers.put_layer(&record)?;
    Ok(record)
}
