//! The first process of a pod's shared pid namespace: this binary again, which does nothing but reap.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_sys::namespace::Namespaces;
use berth_sys::pidfd;
use berth_sys::spawn::{Child, Plan, spawn};
use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};

use tokio::task::JoinHandle;

use crate::error::{CallError, Step};
use crate::pod::Pod;

/// Everything in the namespace dies before the holder can be reaped.
const DEATH_MAX: Duration = Duration::from_secs(5);

/// The holder, seen from the shim.
#[derive(Debug)]
pub(super) struct Holder {
    pid: i32,
    pidfd: Arc<OwnedFd>,
    namespace: OwnedFd,
    reaped: JoinHandle<()>,
}

impl Holder {
    /// Starts it. Must be called on the main thread: it dies with the thread that made it.
    pub(super) fn start(pod: &Arc<Pod>) -> Result<Holder, CallError> {
        let null =
            File::options().read(true).write(true).open("/dev/null").step(|| "open /dev/null".to_owned())?;
        let argv = [CString::from(c"berth-shim"), CString::from(c"holder")];
        let plan = Plan {
            exe: pod.exe.as_fd(),
            argv: &argv,
            env: &[],
            fds: &[null.as_fd(), null.as_fd(), null.as_fd()],
            namespaces: Namespaces::PID,
            cgroup: None,
        };
        let busy = pod.reaper.busy();
        let Child { pid, pidfd } =
            spawn(&plan).step(|| "start the holder of the pid namespace".to_owned())?;
        pod.reaper.adopt(pid);
        drop(busy);
        let pidfd = Arc::new(pidfd);
        let reaped = tokio::spawn(watch(pod.clone(), pid, pidfd.clone()));
        let path = format!("/proc/{pid}/ns/pid");
        let namespace = File::open(&path).step(|| format!("open {path}"))?.into();
        Ok(Holder { pid, pidfd, namespace, reaped })
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
    pub(super) async fn end(self) {
        let _gone = pidfd::send_signal(&*self.pidfd, Signal::KILL.as_raw());
        let _late = tokio::time::timeout(DEATH_MAX, self.reaped).await;
    }
}

/// Reaps the holder. If it dies early the kernel has killed all in its namespace: they are told of as ever.
async fn watch(pod: Arc<Pod>, pid: i32, pidfd: Arc<OwnedFd>) {
    let ended = pod.reaper.wait(pid, &pidfd).await;
    if !pod.closing.load(Ordering::Relaxed) {
        crate::say!("the holder of the pid namespace has ended ({ended:?}), and with it the pod's processes");
    }
}

/// What the holder does, for as long as the shim lives.
pub(crate) fn main() -> ExitCode {
    // The shim may have gone before this took effect: then the parent is not in sight any more, which it never was.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => berth_sys::signal::await_child(),
        }
    }
}
