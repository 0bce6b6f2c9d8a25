//! kill: a signal to the first process, or to all.

use std::os::fd::AsFd;

use berth_cgroup::Cgroup;

use crate::error::{At, Error, Failure};

/// Sends `signal` to the process behind `pidfd`. One that has ended is a success.
///
/// # Errors
/// EINVAL for a number that is no signal, EPERM.
pub fn kill(pidfd: impl AsFd, signal: i32) -> Result<(), Error> {
    match berth_sys::pidfd::send_signal(pidfd, signal) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
        other => Ok(other.step(&format!("send signal {signal}"))?),
    }
}

/// Sends `signal` to every process of the cgroup; for SIGKILL nobody escapes.
///
/// # Errors
/// What the cgroup says.
pub fn kill_all(cgroup: &Cgroup, signal: i32) -> Result<(), Error> {
    if signal == 9 {
        return Ok(cgroup.kill()?);
    }
    if berth_sys::lacks(berth_sys::Call::PidfdOpen) {
        let note = "pidfd_open is missing here, or a seccomp filter around the runtime forbids it";
        return Err(Failure::refused("signal every process", None, note).into());
    }
    // Frozen, so that nobody forks away between the list and the signal.
    let paused = cgroup.is_frozen() == Some(true);
    let frozen = !paused && cgroup.freeze().is_ok();
    let pids = cgroup.procs();
    for pid in pids.as_deref().unwrap_or_default() {
        if let Ok(pidfd) = berth_sys::pidfd::open(*pid) {
            let _ = berth_sys::pidfd::send_signal(pidfd, signal);
        }
    }
    // Whatever happened: what was not frozen before is not left frozen, and what was paused stays so.
    if frozen {
        cgroup.thaw()?;
    }
    pids?;
    Ok(())
}
