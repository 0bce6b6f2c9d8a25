//! The first process of a pod's shared pid namespace: this binary again, which does nothing but reap.
//!
//! Every container of the pod sees it, and one with CAP_SYS_PTRACE may enter whatever it can reach. So it reaches
//! nothing: see [`cage`]. The first container is built only when it has said that it is in there.

mod cage;

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_sys::namespace::Namespaces;
use berth_sys::pidfd;
use berth_sys::spawn::{Child, Plan, spawn};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use tokio::task::JoinHandle;

use crate::blocking;
use crate::error::{CallError, Step};
use crate::pod::Pod;

/// Everything in the namespace dies before the holder can be reaped.
const DEATH_MAX: Duration = Duration::from_secs(5);

/// When the holder has died, the ends of the pod's processes get this long to be told of.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The descriptor on which the holder says that it is caged.
const CAGED_FD: i32 = 3;

/// The holder, seen from the shim. Dropped, it dies.
#[derive(Debug)]
pub(super) struct Holder {
    pid: i32,
    pidfd: Arc<OwnedFd>,
    namespace: OwnedFd,
    reaped: Option<JoinHandle<()>>,
}

impl Holder {
    /// Starts it and waits until it is caged. Must be called on the main thread: it dies with the thread that made it.
    pub(super) async fn start(pod: &Arc<Pod>) -> Result<Holder, CallError> {
        let (caged, caged_end) = pipe_with(PipeFlags::CLOEXEC).step(|| "make a pipe".to_owned())?;
        let holder = Holder::spawn(pod, caged_end)?;
        let told = blocking::run(move || {
            let mut word = String::new();
            File::from(caged).read_to_string(&mut word).step(|| "listen to the holder".to_owned())?;
            Ok(word)
        });
        match tokio::time::timeout(DEATH_MAX, told).await {
            Ok(Ok(word)) if word == cage::SAFE => Ok(holder),
            Ok(Ok(word)) => Err(failed(word)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(failed("it says nothing".to_owned())),
        }
    }

    fn spawn(pod: &Arc<Pod>, caged: OwnedFd) -> Result<Holder, CallError> {
        let null =
            File::options().read(true).write(true).open("/dev/null").step(|| "open /dev/null".to_owned())?;
        let argv = [CString::from(c"berth-shim"), CString::from(c"holder")];
        let plan = Plan {
            exe: pod.exe.as_fd(),
            argv: &argv,
            env: &[],
            fds: &[null.as_fd(), null.as_fd(), null.as_fd(), caged.as_fd()],
            namespaces: Namespaces::PID
                | Namespaces::MOUNT
                | Namespaces::NETWORK
                | Namespaces::IPC
                | Namespaces::UTS
                | Namespaces::CGROUP,
            cgroup: None,
        };
        let busy = pod.reaper.busy();
        let Child { pid, pidfd } =
            spawn(&plan).step(|| "start the holder of the pid namespace".to_owned())?;
        pod.reaper.adopt(pid);
        drop(busy);
        let pidfd = Arc::new(pidfd);
        let reaped = Some(crate::background::spawn(watch(pod.clone(), pid, pidfd.clone())));
        let path = format!("/proc/{pid}/ns/pid");
        match File::open(&path) {
            Ok(namespace) => Ok(Holder { pid, pidfd, namespace: namespace.into(), reaped }),
            Err(source) => {
                kill(&pidfd);
                Err(CallError::Step { step: format!("open {path}"), source })
            }
        }
    }

    /// The pid namespace.
    pub(super) fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Kills it, and with it all that is left in the namespace.
    pub(super) async fn end(mut self) {
        kill(&self.pidfd);
        if let Some(reaped) = self.reaped.take() {
            let _late = tokio::time::timeout(DEATH_MAX, reaped).await;
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        kill(&self.pidfd);
    }
}

fn kill(pidfd: &OwnedFd) {
    let _gone = pidfd::send_signal(pidfd, Signal::KILL.as_raw());
}

fn failed(word: String) -> CallError {
    let source = std::io::Error::other(if word.is_empty() { "it died".to_owned() } else { word });
    CallError::Step { step: "cage the holder of the pid namespace".into(), source }
}

/// Reaps the holder. If it dies early, the kernel has killed all in its namespace, in which nothing can ever be started
/// again: the pod is lost, and the daemon has to see that. What it shows for a lost pod is a shim that is gone.
async fn watch(pod: Arc<Pod>, pid: i32, pidfd: Arc<OwnedFd>) {
    let ended = pod.reaper.wait(pid, &pidfd).await;
    if pod.closing.load(Ordering::Relaxed) || pod.sandbox.lock().await.is_none() {
        return;
    }
    crate::say!("the holder of the pid namespace has ended ({ended:?}): the pod {} is lost", pod.id);
    tokio::time::sleep(LAST_WORDS).await;
    std::process::exit(1);
}

/// What the holder does, for as long as the shim lives.
pub(crate) fn main() -> ExitCode {
    let Ok(caged) = berth_sys::inherited::take(CAGED_FD) else { return ExitCode::FAILURE };
    let mut caged = File::from(caged);
    if let Err(error) = cage::enter() {
        let _nobody_listens = caged.write_all(error.to_string().as_bytes());
        return ExitCode::FAILURE;
    }
    if caged.write_all(cage::SAFE.as_bytes()).is_err() {
        // The shim has gone before it could become our end.
        return ExitCode::FAILURE;
    }
    drop(caged);
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => berth_sys::signal::await_child(),
        }
    }
}
