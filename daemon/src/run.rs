//! The whole life of the process: read what is wanted, prepare, serve, drain, end.

use crate::app::App;
use crate::args::{Args, Command, ConfigAct};
use crate::lock::Locks;
use crate::paths::Paths;
use crate::server::Socket;
use crate::{begin, blocking, faults, logging, man, notify, server};
use anyhow::{Context, bail};
use berth_config::Config;
use clap::Parser;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Threads that run async code. Verbs wait for shims and disks, so a few are plenty, and each costs memory.
const WORKERS: usize = 4;
/// Threads for what does not come by the daemon's own door, such as files of the async runtime.
const OTHER_THREADS: usize = 16;
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
            eprintln!("berthd: {}", berth_core::error::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Config { act: ConfigAct::Default }) => print(&berth_config::template::text()),
        Some(Command::Config { act: ConfigAct::Check { file } }) => {
            let file = file.as_deref().or(args.config.as_deref());
            berth_config::load(file, &args.overrides())?;
            let name = file.unwrap_or(berth_config::DEFAULT_FILE.as_ref());
            match name.exists() {
                true => print(&format!("{}: no fault found\n", name.display())),
                false => print(&format!("{} is not there: every key has its default\n", name.display())),
            }
        }
        Some(Command::Version) => print(&format!("berthd {} (CRI v1)\n", env!("CARGO_PKG_VERSION"))),
        Some(Command::Faults) => print(&faults::text()),
        Some(Command::Man { page }) => print(&man::page(*page)?),
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
    let allocator = berth_sys::malloc::without_thread_caches();
    let config = berth_config::load(args.config.as_deref(), &args.overrides())?;
    if !rustix::process::geteuid().is_root() {
        bail!(
            "berthd must be root to make namespaces, mounts and cgroups: start it by its systemd unit or with sudo"
        );
    }
    logging::init(&config.log);
    if let Err(error) = allocator {
        tracing::warn!(%error, "berthd could not start itself with a smaller allocator; it goes on with the usual one");
    }
    if args.allow_faults {
        faults::arm_from_environment()?;
    }
    berth_sys::malloc::single_arena();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let paths = Paths::new(&config);
    paths.prepare()?;
    let _locks = Locks::take(&paths, &config.network)?;
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
        .max_blocking_threads(blocking::THREADS + OTHER_THREADS)
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

/// Signals that would end a program that does not know them, and that administrators send to others for a reload or for
/// its state: they are answered in the log.
fn answer_other_signals() -> std::io::Result<()> {
    let others = [(SignalKind::hangup(), "SIGHUP"), (SignalKind::user_defined1(), "SIGUSR1")];
    for (kind, name) in others {
        let mut signal = signal(kind)?;
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                tracing::warn!(
                    signal = name,
                    "nothing is done: the configuration is read at start; restart berthd, pods go on meanwhile"
                );
            }
        });
    }
    Ok(())
}

async fn serve(config: Config, paths: Paths) -> anyhow::Result<()> {
    let mut ends = Ends::take().context("listen for signals")?;
    answer_other_signals().context("listen for signals")?;
    // Bound before recovery and served after it: a client that comes early waits instead of being refused.
    let socket = Socket::bind(&paths.socket, config.grpc.gid)?;
    let starting = async {
        // Opening may remove what a crash left, for as long as that takes.
        let app = Arc::new(tokio::task::spawn_blocking(move || App::open(config, paths)).await??);
        begin::recover(&app).await?;
        anyhow::Ok(app)
    };
    let Some(app) = unless_told(&mut ends, starting).await else { return Ok(()) };
    let app = app?;
    let drain = std::time::Duration::from_secs(app.config.grpc.drain_seconds);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        socket = %app.paths.socket.display(),
        root = %app.paths.root.display(),
        driver = crate::driver::name(app.driver),
        "berthd serves CRI"
    );
    for text in berth_sys::missing() {
        tracing::warn!("{text}");
    }
    notify::ready();
    tokio::spawn(give_memory_back());
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
    begin::close(&app).await;
    Ok(())
}

/// Gives the kernel what the allocator keeps, now and then: long after a burst, the free pages between the few that live would
/// count as the daemon's own, and more of them with every burst.
async fn give_memory_back() {
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(30));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        berth_sys::malloc::trim();
    }
}

/// Does `work`, unless the daemon is told to end before: then it is left where it stands, and the next start goes on.
async fn unless_told<T>(ends: &mut Ends, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        cause = ends.wait() => {
            tracing::info!(cause, "ending before the start was finished");
            notify::stopping();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_start_that_takes_long_can_be_ended() {
        let mut ends = Ends::take().unwrap();
        assert_eq!(unless_told(&mut ends, async { 3 }).await, Some(3));
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        assert_eq!(unless_told(&mut ends, std::future::pending::<()>()).await, None);
    }
}
