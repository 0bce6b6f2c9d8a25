//! Pulling an image: one flight per reference and credential, layers in parallel, one sync, one transaction.

pub mod collect;
pub mod configuration;
pub mod error;
mod flight;
mod image;
mod layer;
mod locks;
mod sink;

use crate::auth::RegistryAuth;
use crate::index::{ImageIndex, PulledImage};
use crate::platform::Platform;
use crate::progress::Progress;
use crate::reference::Reference;
use crate::registry::http::Http;
use crate::threads::Threads;
use crate::unpack::{Limits, WorkerCommand};
use berth_snapshot::{LayerIndex, Snapshots};
pub use error::{Error, ErrorKind};
use flight::Flights;
use locks::{Locks, Pins};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Whether layers pass through a file before they are unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spool {
    /// Large ones do, so that a slow disk does not hold up the network, and the other way round.
    #[default]
    Auto,
    /// All do.
    Always,
    /// None does: the worker reads from the network as fast as it can unpack.
    Never,
}

impl Spool {
    /// Above this size, `auto` means yes.
    pub const AUTO_ABOVE: u64 = 32 << 20;

    fn wants(self, size: u64) -> bool {
        match self {
            Self::Auto => size > Self::AUTO_ABOVE,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// How to pull.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where `hosts.toml` files are.
    pub certs_dir: PathBuf,
    /// Layers of one image fetched and unpacked at the same time.
    pub max_parallel_layers: usize,
    /// Layers of all images fetched and unpacked at the same time; never fewer than of one.
    pub max_workers: usize,
    /// How long the finished layers of a pull that failed are kept for the next try.
    pub keep_failed: Duration,
    /// Whether layers pass through a file.
    pub spool: Spool,
    /// How to start an unpack worker.
    pub worker: WorkerCommand,
    /// Bounds of a layer.
    pub limits: Limits,
    /// What to call ourselves.
    pub user_agent: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            certs_dir: PathBuf::from("/etc/berth/certs.d"),
            max_parallel_layers: 3,
            max_workers: 8,
            keep_failed: Duration::from_secs(600),
            spool: Spool::Auto,
            worker: WorkerCommand::default(),
            limits: Limits::default(),
            user_agent: concat!("berth/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// One wish for an image.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// Which image.
    pub reference: Reference,
    /// What to prove it with.
    pub auth: RegistryAuth,
    /// For which machine.
    pub platform: Platform,
    /// Where to tell how far it is.
    pub progress: Progress,
    /// Gives this wish up. The pull itself goes on while anybody else waits for it.
    pub cancel: CancellationToken,
}

impl PullRequest {
    /// A wish with no credentials, for this machine, that tells nobody and is not given up.
    #[must_use]
    pub fn new(reference: Reference) -> Self {
        Self {
            reference,
            auth: RegistryAuth::default(),
            platform: Platform::host(),
            progress: Progress::none(),
            cancel: CancellationToken::new(),
        }
    }
}

/// Pulls images into one layer store. Cheap to clone.
#[derive(Clone)]
pub struct Puller(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) snapshots: Snapshots,
    pub(crate) layers: Arc<dyn LayerIndex>,
    pub(crate) images: Arc<dyn ImageIndex>,
    pub(crate) http: Arc<Http>,
    pub(crate) flights: Flights,
    pub(crate) locks: Locks,
    pub(crate) pins: Arc<Pins>,
    pub(crate) threads: Threads,
    pub(crate) workers: Arc<Semaphore>,
    /// A collection is about to begin.
    pub(crate) collecting: AtomicBool,
}

impl std::fmt::Debug for Puller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Puller").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Puller {
    /// A puller into `snapshots`, whose records are kept by `layers` and `images`.
    #[must_use]
    pub fn new(
        options: Options,
        snapshots: Snapshots,
        layers: Arc<dyn LayerIndex>,
        images: Arc<dyn ImageIndex>,
    ) -> Self {
        let http = Arc::new(Http::new(&options.user_agent));
        let workers = options.max_workers.max(options.max_parallel_layers).max(1);
        let shared = Arc::new(Shared {
            options,
            snapshots,
            layers,
            images,
            http,
            flights: Flights::default(),
            locks: Locks::default(),
            pins: Arc::default(),
            threads: Threads::default(),
            workers: Arc::new(Semaphore::new(workers)),
            collecting: AtomicBool::new(false),
        });
        // An image that was removed while a container still held its layers is collected after that container.
        let weak = Arc::downgrade(&shared);
        shared.snapshots.on_release(move || {
            if let Some(shared) = weak.upgrade() {
                shared.collect_soon();
            }
        });
        Self(shared)
    }

    /// Pulls an image, or joins a pull of the same reference, credentials and platform. Needs a tokio runtime with
    /// time and I/O. When the future is dropped or `request.cancel` fires, and nobody else waits, the pull ends and
    /// leaves nothing but finished layers.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub async fn pull(&self, request: PullRequest) -> Result<PulledImage, Error> {
        flight::join(&self.0, request).await
    }
}
