//! One layer: find it, or fetch and unpack it, and put it in its place.

use super::configuration::LayerSpec;
use super::error::ErrorKind;
use super::locks::Held;
use super::sink::{self, LayerSink, Way};
use super::{Shared, Spool};
use crate::progress::{Event, Progress};
use crate::registry::blob::{BlobError, Stream};
use crate::registry::error::Fault;
use crate::registry::session::Session;
use crate::threads::Threads;
use crate::unpack::finish::{self, Bounds};
use crate::unpack::job::{Job, JobError};
use crate::unpack::report::{FailureKind, Report};
use berth_snapshot::{LayerKey, LayerMeta, LayerRecord, Staging};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

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
    stage: Stage,
    report: Report,
    /// Nobody else makes this layer meanwhile.
    _chain: Held,
}

/// A staged directory in async hands: given up, it is removed in a thread.
pub(super) struct Stage(Option<Staging>);

impl Stage {
    fn staging(mut self) -> Result<Staging, ErrorKind> {
        self.0.take().ok_or_else(|| ErrorKind::Internal("a staged layer was used twice".into()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(staging) = self.0.take() {
            Threads::discard(staging);
        }
    }
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
    let slot = work.slots.acquire().await.map_err(internal)?;
    let (stage, report) = fetch_somewhere(&work, &spec).await?;
    drop(slot);
    work.progress.tell(Event::Applied { layer: spec.position, bytes: report.tar_bytes });
    if !report.needs.is_empty() {
        drop(diff);
        return Ok(Done::Staged(Box::new(Staged { spec, stage, report, _chain: chain })));
    }
    let shared = Arc::clone(&work.shared);
    let key = LayerKey::self_contained(&spec.diff_id);
    let threads = shared.threads.clone();
    threads.run(move || place(&shared, &spec, stage.staging()?, &report, key)).await.map(Done::Placed)
}

/// The layer, if it is here: by itself, or finished against the very same layers below.
async fn present(work: &Arc<Work>, spec: &LayerSpec) -> Result<Option<LayerRecord>, ErrorKind> {
    let keys = [LayerKey::self_contained(&spec.diff_id), LayerKey::chained(&spec.chain_id)];
    let (shared, position) = (Arc::clone(&work.shared), spec.position);
    let threads = shared.threads.clone();
    let found = threads.run(move || {
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

/// Fetches the layer, and once more from others if what one place gave turns out to be something else: a mirror with
/// one damaged blob must not make the image unusable.
async fn fetch_somewhere(work: &Arc<Work>, spec: &LayerSpec) -> Result<(Stage, Report), ErrorKind> {
    loop {
        let failed = match fetch(work, spec).await {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        if !failed.damaged || !work.session.distrust(&failed.sources) {
            return Err(failed.error);
        }
        let reason = berth_core::error::chain(&failed.error);
        work.progress.tell(Event::Retry { layer: Some(spec.position), reason });
    }
}

/// A failed attempt.
struct FailedFetch {
    error: ErrorKind,
    /// The bytes were, or may have been, others than those asked for.
    damaged: bool,
    /// Places that gave any of them.
    sources: Vec<usize>,
}

impl From<ErrorKind> for FailedFetch {
    fn from(error: ErrorKind) -> Self {
        Self { error, damaged: false, sources: Vec::new() }
    }
}

/// Fetches and unpacks at the same time. Both ends tell of a failure by closing their side; when this future is
/// dropped, the worker is killed.
async fn fetch(work: &Arc<Work>, spec: &LayerSpec) -> Result<(Stage, Report), FailedFetch> {
    let stop = CancellationToken::new();
    let _given_up = stop.clone().drop_guard();
    let (mut sink, mut worker) = start(work, spec, stop.clone()).await?;
    let mut stream = Stream::new(&work.session, spec.position, &spec.blob);
    let told = told(&work.progress, spec);
    let mut early = None;
    let fetched = {
        let mut fetch = pin!(stream.fetch(&mut sink, &told));
        tokio::select! {
            biased;
            fetched = &mut fetch => fetched,
            done = &mut worker => {
                let done = flat(done);
                // A worker that died ends the fetch, which may be waiting for the registry. If the layer is bad, a look at
                // the rest tells whose fault it is; the next bytes that nobody takes end the fetch.
                let goes_on = done.as_ref().map_or_else(is_layers_fault, |_| true);
                early = Some(done);
                if goes_on { fetch.await } else { Err(BlobError::SinkGone) }
            }
        }
    };
    let written = sink.end().await;
    if matches!(fetched, Err(BlobError::Registry(_))) || written.is_err() {
        stop.cancel();
    }
    let unpacked = match early {
        Some(done) => done,
        None => flat(worker.await),
    };
    verdict(work, spec, (fetched, written, unpacked), stream.sources()).await
}

fn flat(done: Result<Unpacked, tokio::task::JoinError>) -> Unpacked {
    done.unwrap_or_else(|error| Err(internal(error)))
}

/// What became of a layer, from what its three stations say. Nothing staged is left when it is an error.
async fn verdict(
    work: &Arc<Work>,
    spec: &LayerSpec,
    (fetched, written, unpacked): (Result<(), BlobError>, std::io::Result<()>, Unpacked),
    sources: Vec<usize>,
) -> Result<(Stage, Report), FailedFetch> {
    let gone = matches!(fetched, Err(BlobError::SinkGone));
    let first = match (fetched, written) {
        (Err(BlobError::Registry(error)), _) => {
            let damaged = error.fault() == Some(Fault::Mismatch);
            Some((error.into(), damaged))
        }
        (_, Err(source)) => Some((ErrorKind::Spool { digest: spec.blob.digest.clone(), source }, false)),
        _ => None,
    };
    let (error, damaged) = match (first, unpacked) {
        (None, Ok(done)) if !gone => return Ok(done),
        (first, Ok((stage, _))) => {
            work.shared.threads.run(move || stage.staging().map(drop)).await?;
            first.unwrap_or_else(|| (internal("the worker ended early and well"), false))
        }
        (Some(first), Err(_)) => first,
        // If not all of it was seen its digest is not known.
        (None, Err(error)) => {
            let damaged = gone && is_layers_fault(&error);
            (error, damaged)
        }
    };
    Err(FailedFetch { error, damaged, sources })
}

fn is_layers_fault(error: &ErrorKind) -> bool {
    let ErrorKind::Layer { source: JobError::Failed(failure), .. } = error else { return false };
    matches!(failure.kind, FailureKind::BadLayer | FailureKind::TooBig | FailureKind::Truncated)
}

/// One event per 256 KiB and one at the end are enough for any display.
fn told(progress: &Progress, spec: &LayerSpec) -> impl Fn(u64) + Sync + use<> {
    let (progress, layer, size) = (progress.clone(), spec.position, spec.blob.size);
    let told = std::sync::atomic::AtomicU64::new(0);
    move |bytes: u64| {
        let before = told.load(std::sync::atomic::Ordering::Relaxed);
        if bytes.saturating_sub(before) >= 256 << 10 || bytes == size {
            told.store(bytes, std::sync::atomic::Ordering::Relaxed);
            progress.tell(Event::Fetched { layer, bytes });
        }
    }
}

type Unpacked = Result<(Stage, Report), ErrorKind>;
type Worker = tokio::task::JoinHandle<Unpacked>;

/// Starts the worker. The task that waits for it owns the staged directory, so that a given-up layer is removed only
/// after its worker is gone, and the place among the node's workers.
async fn start(
    work: &Arc<Work>,
    spec: &LayerSpec,
    stop: CancellationToken,
) -> Result<(LayerSink, Worker), ErrorKind> {
    let place = Arc::clone(&work.shared.workers).acquire_owned().await.map_err(internal)?;
    let (shared, threads, spec) = (Arc::clone(&work.shared), work.shared.threads.clone(), spec.clone());
    let started = threads.run(move || {
        let staging = shared.snapshots.layer_stage()?;
        let (data, source, open) = way(shared.options.spool, &staging, spec.blob.size)?.split();
        let options = &shared.options;
        let (dir, algorithm) = (staging.open()?, spec.diff_id.algorithm());
        let job = Job::start(&options.worker, dir, data, source, algorithm, options.limits)
            .map_err(layer_error(&spec))?;
        let sink = open(job.socket()).map_err(internal)?;
        Ok((sink, job, staging, spec))
    });
    let (sink, job, staging, spec) = started.await?;
    let (stage, limits) = (Stage(Some(staging)), work.shared.options.limits);
    let worker = tokio::spawn(async move {
        let answer = job.wait(&stop).await;
        drop(place);
        threads
            .run(move || {
                let read = answer.and_then(|answer| answer.read(&limits)).map_err(layer_error(&spec));
                match read.and_then(|report| as_configured(&spec, report)) {
                    Ok(report) => Ok((stage, report)),
                    Err(error) => {
                        drop(stage.staging()?);
                        Err(error)
                    }
                }
            })
            .await
    });
    Ok((sink, worker))
}

/// The configuration says what must have come out.
fn as_configured(spec: &LayerSpec, report: Report) -> Result<Report, ErrorKind> {
    if report.diff_id == spec.diff_id {
        return Ok(report);
    }
    let (digest, wanted) = (spec.blob.digest.clone(), spec.diff_id.clone());
    Err(ErrorKind::DiffId { digest, wanted, found: report.diff_id })
}

fn way(spool: Spool, staging: &Staging, size: u64) -> Result<Way, ErrorKind> {
    let way = if spool.wants(size) { sink::spool(staging.path(), size) } else { sink::pipe(size) };
    way.map_err(internal)
}

fn internal(error: impl std::fmt::Display) -> ErrorKind {
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
    let threads = shared.threads.clone();
    // Settling looks at this: it may take long, and nobody may want it any more.
    let given_up = Arc::new(AtomicBool::new(false));
    let _guard = GiveUp(Arc::clone(&given_up));
    let finished = threads.run(move || {
        let Staged { spec, stage, report, _chain } = staged;
        let staging = stage.staging()?;
        let mut parents = Vec::with_capacity(below.len());
        for key in below.iter().rev() {
            parents.push(shared.snapshots.layer_open(key)?);
            if shared.snapshots.layer_meta(key)?.opaque_root {
                break;
            }
        }
        let root = open_fs(&staging)?;
        let digest = spec.blob.digest.clone();
        let bounds = Bounds { limits: &shared.options.limits, given_up: &given_up };
        let more = finish::settle(root.as_fd(), &parents, &report.needs, &bounds)
            .map_err(|source| ErrorKind::Finish { digest, source })?;
        let report =
            Report { bytes: report.bytes + more.bytes, inodes: report.inodes + more.inodes, ..report };
        let key = LayerKey::chained(&spec.chain_id);
        place(&shared, &spec, staging, &report, key)
    });
    finished.await
}

/// Tells a step in a thread that its waiter is gone.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn open_fs(staging: &Staging) -> Result<std::os::fd::OwnedFd, ErrorKind> {
    let dir = staging.open()?;
    crate::unpack::apply::tree::open_dir(dir.as_fd(), b"fs")
        .map_err(|errno| internal(std::io::Error::from(errno)))
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
