//! The life of a shim: set itself up, listen, say so, serve until told to end, leave nothing behind.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use berth_cgroup::Hierarchies;
use berth_proto::shim::{Dispatch, FRAME_MAX, SERVICE};
use berth_proto::ttrpc::{Server, socket};
use tokio::net::UnixListener;

use crate::args::Serve;
use crate::error::{CallError, Step};
use crate::journal::{FILE_NAME, Journal};
use crate::pod::Pod;
use crate::service::Shim;
use crate::shutdown::shutdown;
use crate::signals::Signals;

/// A thread for blocking work ends after this much idleness: an idle shim has one thread.
const THREAD_IDLE: Duration = Duration::from_millis(100);

/// Stack of such a thread.
const THREAD_STACK: usize = 512 << 10;

/// At most so many of them.
const THREADS_MAX: usize = 16;

/// A shim that no daemon claims, and that owns nothing, ends after this.
const UNCLAIMED_MAX: Duration = Duration::from_secs(60);

/// Wished for: the kernel is to kill the pod's programs before the shim that has to report it.
const OOM_SCORE_ADJ: &str = "-998";

/// Serves the pod until it is over.
pub(crate) fn serve(args: Serve, ready: Option<OwnedFd>) -> ExitCode {
    berth_sys::malloc::single_arena();
    prepare_process();
    let runtime = event_loop();
    let result = runtime.step(|| "start the event loop".to_owned()).and_then(|runtime| {
        let result = runtime.block_on(run(&args, ready));
        // Work that hangs in the kernel does not keep the shim.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::say!("{}: {error}", args.sandbox);
            ExitCode::FAILURE
        }
    }
}

/// One thread for everything that does not block.
pub(crate) fn event_loop() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(THREADS_MAX)
        .thread_keep_alive(THREAD_IDLE)
        .thread_stack_size(THREAD_STACK)
        .build()
}

/// Own session, nearest subreaper, hard to kill for lack of memory. None of it is worth failing for.
pub(crate) fn prepare_process() {
    // Fails for a process that leads its group already: then it was started by a shell, for a test.
    let _leads_already = rustix::process::setsid();
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        crate::say!("become a subreaper: {error}");
    }
    let path = "/proc/self/oom_score_adj";
    if std::fs::write(path, OOM_SCORE_ADJ).is_err() {
        // Without the privilege it may not go below where it started: zero, or what the daemon had.
        let _kept = std::fs::write(path, "0");
    }
    let _kept = std::env::set_current_dir("/");
}

async fn run(args: &Serve, ready: Option<OwnedFd>) -> Result<(), CallError> {
    // First: whoever serves this pod already must lose nothing by our failure.
    let listener = listen(&args.socket)?;
    let pod = Arc::new(open_pod(args)?);
    let signals = Signals::new().step(|| "watch signals".to_owned())?;
    let server = Server::new()
        .frame_max(FRAME_MAX)
        .only_uid(0)
        .service(SERVICE, Arc::new(Dispatch::new(Arc::new(Shim { pod: pod.clone() }))));
    if let Some(ready) = ready {
        // A daemon that has gone meanwhile finds us by the socket, or nobody does and we end.
        let _daemon_gone = File::from(ready).write_all(b"ready\n");
    }
    let asked = pod.clone();
    crate::background::spawn(signals.heed(pod.reaper.clone(), async move || {
        if asked.is_empty() {
            end(&asked).await;
        }
    }));
    crate::background::spawn(end_if_unclaimed(pod.clone()));
    let mut ending = pod.ending.subscribe();
    server.serve(&listener, async move { drop(ending.wait_for(|ending| *ending).await) }).await;
    leave(args);
    Ok(())
}

fn open_pod(args: &Serve) -> Result<Pod, CallError> {
    berth_sys::missing().iter().for_each(|text| crate::say!("{text}"));
    let exe = berth_sys::sealed_self().step(|| "seal the shim's own binary".to_owned())?;
    let hierarchies = Hierarchies::discover().map_err(berth_runtime::Error::from)?;
    let journal =
        Journal::create(&args.state).step(|| format!("make the journal in {}", args.state.display()))?;
    Ok(Pod::new(args.sandbox.clone(), exe, hierarchies, journal))
}

/// Listens; a socket that nobody serves any more is replaced.
fn listen(path: &Path) -> Result<UnixListener, CallError> {
    let failed = || format!("listen at {}", path.display());
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.file_type().is_socket() => {
            if is_served(path) {
                return Err(io::Error::from(ErrorKind::AddrInUse)).step(failed);
            }
            std::fs::remove_file(path).step(|| format!("remove the stale socket {}", path.display()))?;
        }
        Ok(_) => return Err(io::Error::from(ErrorKind::AlreadyExists)).step(failed),
        Err(_) => {}
    }
    let listener = socket::bind(path).step(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).step(failed)?;
    Ok(listener)
}

fn is_served(path: &Path) -> bool {
    socket::connect_now(path).is_ok()
}

/// Removes what only a living shim needs.
fn leave(args: &Serve) {
    for path in [&args.socket, &args.state.join(FILE_NAME)] {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            crate::say!("remove {}: {error}", path.display());
        }
    }
}

async fn end_if_unclaimed(pod: Arc<Pod>) {
    let mut claimed = pod.claimed.subscribe();
    let in_time = tokio::time::timeout(UNCLAIMED_MAX, claimed.wait_for(|claimed| *claimed)).await.is_ok();
    if !in_time && pod.is_empty() {
        crate::say!("no daemon has claimed the pod {}: ending", pod.id);
        end(&pod).await;
    }
}

async fn end(pod: &Arc<Pod>) {
    if let Err(error) = shutdown(pod).await {
        crate::say!("ending: {error}");
    }
}
