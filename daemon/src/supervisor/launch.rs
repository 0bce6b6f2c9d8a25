//! Starting a pod's shim: by descriptor from the sealed binary, detached from everything of the daemon's.

use super::find::greet;
use super::{Found, Process, Shim};
use crate::blocking::Room;
use crate::pod::{Error, Ground, PodPaths};
use berth_core::SandboxId;
use berth_proto::shim::ShimClient;
use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a shim may take until its socket listens.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Where the shim's process id is written down, below the pod's directory.
pub(super) const PID_FILE: &str = "shim.pid";

/// Starts the shim of a sandbox, waits until its socket listens and greets it. On failure its process is ended.
///
/// # Errors
/// It could not be executed, or ended before it was ready; its log says why.
pub(crate) async fn launch(ground: &Arc<Ground>, id: SandboxId) -> Result<Shim, Error> {
    let (base, paths) = (Arc::clone(ground), ground.paths(id));
    let (pidfd, ready) = ground.block("launch the shim", move || start(&base, id, &paths)).await?;
    let process = Process::adopt(pidfd);
    let paths = ground.paths(id);
    match ready_and_greeted(&paths, id, &process, ready).await {
        Ok(shim) => Ok(shim),
        Err(cause) => {
            process.kill_and_wait(id).await?;
            let log = paths.file("shim.log");
            let words =
                ground.block_in(Room::Look, "read the shim's log", move || Ok(last_words(&log))).await;
            let cause = format!("{cause}{}", words.unwrap_or_default());
            Err(Error::internal("launch the shim", cause))
        }
    }
}

async fn ready_and_greeted(
    paths: &PodPaths,
    id: SandboxId,
    process: &Process,
    ready: OwnedFd,
) -> Result<Shim, String> {
    match tokio::time::timeout(READY_WITHIN, wait_ready(ready)).await {
        Ok(done) => done?,
        Err(_) => return Err(format!("not ready within {} s", READY_WITHIN.as_secs())),
    }
    let client = ShimClient::connect(&paths.socket).await.map_err(|error| error.to_string())?;
    match greet(client, id, Some(process.clone())).await {
        Found::Shim(shim) => Ok(shim),
        Found::Mute { why, .. } => Err(why.to_string()),
        Found::Nobody => Err("it is gone".to_owned()),
    }
}

fn start(ground: &Ground, id: SandboxId, paths: &PodPaths) -> Result<(OwnedFd, OwnedFd), Error> {
    let failed = |what: &'static str| move |error: std::io::Error| Error::internal(what, error);
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(failed("open /dev/null"))?;
    let log = std::fs::File::options().create(true).append(true).open(paths.file("shim.log"));
    let log = log.map_err(failed("open the shim's log"))?;
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK);
    let (ready, tell) = pipe.map_err(|errno| Error::internal("make the shim's pipe", errno))?;
    let argv = arguments(id, paths)?;
    let env = environment();
    let plan = berth_sys::spawn::Plan {
        exe: ground.shim_exe.as_fd(),
        argv: &argv,
        env: &env,
        fds: &[null.as_fd(), null.as_fd(), log.as_fd(), tell.as_fd()],
        namespaces: berth_sys::namespace::Namespaces::empty(),
        cgroup: None,
    };
    let child = berth_sys::spawn::spawn(&plan).map_err(failed("execute the shim"))?;
    // Before anything else can fail: whoever looks for this shim later finds it by its number.
    if let Err(error) = std::fs::write(paths.file(PID_FILE), child.pid.to_string()) {
        tracing::warn!(sandbox = %id, %error, "the shim's process id could not be written down");
    }
    Ok((child.pidfd, ready))
}

fn arguments(id: SandboxId, paths: &PodPaths) -> Result<Vec<CString>, Error> {
    let shim = paths.shim();
    let words: [&[u8]; 8] = [
        b"berth-shim",
        b"serve",
        b"--sandbox",
        id.as_str().as_bytes(),
        b"--socket",
        paths.socket.as_os_str().as_bytes(),
        b"--state",
        shim.as_os_str().as_bytes(),
    ];
    words
        .iter()
        .map(|word| CString::new(*word).map_err(|error| Error::internal("name the shim's paths", error)))
        .collect()
}

/// The shim gets no environment but what a person debugging it has set on purpose.
fn environment() -> Vec<CString> {
    let wanted = ["RUST_BACKTRACE", "BERTH_SHIM_LOG"];
    let set = wanted.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    set.filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
        .collect()
}

async fn wait_ready(pipe: OwnedFd) -> Result<(), String> {
    let mut pipe =
        tokio::net::unix::pipe::Receiver::from_owned_fd(pipe).map_err(|error| error.to_string())?;
    let mut word = [0u8; 6];
    match tokio::io::AsyncReadExt::read_exact(&mut pipe, &mut word).await {
        Ok(_) if &word == b"ready\n" => Ok(()),
        Ok(_) => Err(format!("unexpected word {:?}", String::from_utf8_lossy(&word))),
        Err(_) => Err("it ended before it was ready".to_owned()),
    }
}

/// The end of a shim's log, for an error message.
fn last_words(log: &Path) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::open(log).and_then(|file| file.take(64 << 10).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    match (read, text.trim().lines().last()) {
        (Ok(_), Some(line)) => format!("; its last words: {line}"),
        _ => String::new(),
    }
}
