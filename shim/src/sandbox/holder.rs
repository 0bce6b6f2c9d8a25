//! The first process of a pod's shared pid namespace: this binary again, which does nothing but reap.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use berth_sys::namespace::Namespaces;
use berth_sys::pidfd;
use berth_sys::spawn::{Child, Plan, spawn};
use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};

use crate::error::{CallError, Step};
use crate::pod::Pod;

/// The holder, seen from the shim.
#[derive(Debug)]
pub(super) struct Holder {
    child: Child,
    namespace: OwnedFd,
}

impl Holder {
    /// Starts it. Must be called on the main thread: it dies with the thread that made it.
    pub(super) fn start(pod: &Pod) -> Result<Holder, CallError> {
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
        let child = spawn(&plan).step(|| "start the holder of the pid namespace".to_owned())?;
        pod.reaper.adopt(child.pid);
        drop(busy);
        let path = format!("/proc/{}/ns/pid", child.pid);
        let namespace = File::open(&path).step(|| format!("open {path}"))?.into();
        Ok(Holder { child, namespace })
    }

    /// The pid namespace.
    pub(super) fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid.unsigned_abs()
    }

    /// Kills it, and with it all that is left in the namespace.
    pub(super) fn end(self) {
        let _gone = pidfd::send_signal(&self.child.pidfd, Signal::KILL.as_raw());
        let _reaped = pidfd::wait(&self.child.pidfd);
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
