//! The whole life of the process: read what is wanted, prepare, serve, drain, end.

use crate::app::App;
use crate::args::{Args, Command, ConfigAct};
use crate::lock::Locks;
use crate::paths::Paths;
use crate::server::Socket;
use crate::{blocking, faults, logging, notify, recovery, server};
use anyhow::{Context, bail};
use berth_config::Config;
use clap::Parser;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Threads that run async code. Verbs wait for shims and disks, so a few are plenty, and each costs memory.
const WORKERS: usize = 4;
/// Stack of a thread. Nothing here recurses.
const STACK: usize = 512 << 10;

/// Runs what the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    // The unpack worker confines itself and must be the only thread of its process, so it comes before all else.
    if std::env::args_os().nth(1).is_some_and(|word| word == "unpack") {
        return crate::unpack::main();
    }
    match dispatch(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berthd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Config { act: ConfigAct::Default }) => print(&berth_config::template::text()),
        Some(Command::Config { act: ConfigAct::Check { file } }) => {
            berth_config::load(file.as_deref(), &args.overrides())?;
            Ok(())
        }
        Some(Command::Version) => print(&format!("berthd {} (CRI v1)\n", env!("CARGO_PKG_VERSION"))),
        Some(Command::Faults) => print(&faults::text()),
        None => daemon(args),
    }
}

/// A closed pipe (`berthd faults | head`) is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn daemon(args: &Args) -> anyhow::Result<()> {
    let config = berth_config::load(args.config.as_deref(), &args.overrides())?;
    if !rustix::process::geteuid().is_root() {
        bail!(
            "berthd must be root to make namespaces, mounts and cgroups: start it by its systemd unit or with sudo"
        );
    }
    logging::init(&config.log);
    if args.allow_faults {
        faults::arm_from_environment()?;
    }
    berth_sys::malloc::single_arena();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let paths = Paths::new(&config);
    paths.prepare()?;
    let _locks = Locks::take(&paths)?;
    if args.allow_faults {
        faults::listen(&paths.state.join("faults.sock")).context("listen for fault points")?;
    }
    let runtime = runtime().context("start the async runtime")?;
    let served = runtime.block_on(serve(config, paths));
    // Whatever still blocks in a thread must not keep a stopped daemon alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    served
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cpus.clamp(1, WORKERS))
        .max_blocking_threads(blocking::THREADS + 4)
        .thread_keep_alive(std::time::Duration::from_secs(5))
        .thread_stack_size(STACK)
        .thread_name("berthd")
        .enable_all()
        .build()
}

/// Signals that end the daemon. Taken before anything is made, so that an early one is not lost.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn take() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

async fn serve(config: Config, paths: Paths) -> anyhow::Result<()> {
    let mut ends = Ends::take().context("listen for signals")?;
    // Bound before recovery and served after it: a client that comes early waits instead of being refused.
    let socket = Socket::bind(&paths.socket, config.grpc.gid)?;
    let app = Arc::new(App::open(config, paths)?);
    recover(&app).await?;
    let drain = std::time::Duration::from_secs(app.config.grpc.drain_seconds);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        socket = %app.paths.socket.display(),
        root = %app.paths.root.display(),
        driver = crate::driver::name(app.driver),
        "berthd serves CRI"
    );
    notify::ready();
    berth_sys::malloc::trim();
    server::serve(
        app.clone(),
        socket,
        async move {
            let cause = ends.wait().await;
            tracing::info!(cause, "draining");
            notify::stopping();
        },
        drain,
    )
    .await?;
    close(&app).await;
    Ok(())
}

/// Reads back what earlier daemons left, and settles it.
async fn recover(app: &Arc<App>) -> anyhow::Result<()> {
    let meta = app.store.meta();
    let before = meta.note_boot(&app.host.boot_id)?;
    let clean = before.as_deref() == Some(app.host.boot_id.as_str())
        || meta.get("clean_end")?.as_deref() == Some("yes");
    meta.set("clean_end", "no")?;
    let puller = app.puller.clone();
    app.blocking.run("settle layers", move || puller.recover(clean)).await??;
    recovery::recover(&app.pods).await?;
    Ok(())
}

/// After the last call: pods stay, everything else is put away.
async fn close(app: &Arc<App>) {
    let network = app.network.clone();
    let retired = app.blocking.run("put the network away", move || network.retire()).await;
    if let Ok(Err(error)) = retired {
        tracing::warn!(%error, "the built-in network was left as it is");
    }
    if let Err(error) = app.store.meta().set("clean_end", "yes") {
        tracing::warn!(%error, "the clean end could not be noted");
    }
    tracing::info!("ended");
}
