//! Learning that the OOM killer struck.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode as FileMode, OFlags, openat};
use rustix::io::{Errno, pread, read};

use std::os::fd::AsRawFd;

use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::group::places::Places;
use crate::hierarchy::Mode;

/// A descriptor to poll. It says only "look": it also wakes when the group is removed, and when a limit was hit
/// without a kill, so read [`crate::Cgroup::oom_kills`] then.
#[derive(Debug)]
pub struct OomWatch {
    fd: OwnedFd,
    eventfd: bool,
}

impl AsFd for OomWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl OomWatch {
    /// What to poll for: on v1 the descriptor becomes readable (POLLIN); on v2 it is always readable, and has a
    /// priority event (POLLPRI) when the counters changed.
    pub fn is_priority(&self) -> bool {
        !self.eventfd
    }

    /// Takes the event, so that the descriptor is quiet until the next one.
    ///
    /// # Errors
    /// The failed read; ENODEV when the group is gone.
    pub fn acknowledge(&self) -> std::io::Result<()> {
        let mut buffer = [0; 512];
        let done =
            if self.eventfd { read(&self.fd, &mut buffer[..8]) } else { pread(&self.fd, &mut buffer, 0) };
        match done {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

pub(crate) fn kills(mode: Mode, places: &Places) -> Option<u64> {
    match mode {
        Mode::V2 => places.unified.as_ref()?.keyed("memory.events", "oom_kill"),
        Mode::V1 | Mode::Hybrid => places.v1_dir("memory")?.keyed("memory.oom_control", "oom_kill"),
    }
}

pub(crate) fn watch(mode: Mode, places: &Places) -> Result<Option<OomWatch>> {
    let file = if mode == Mode::V2 { "memory.events" } else { "memory.oom_control" };
    let Some(dir) = places.dir(mode, "memory") else { return Ok(None) };
    let failed = |step| CgroupError::io(step, dir.path.join(file));
    let fd = match openat(&dir.fd, file, OFlags::RDONLY | OFlags::CLOEXEC, FileMode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        other => other.map_err(failed("open"))?,
    };
    if mode == Mode::V2 {
        let watch = OomWatch { fd, eventfd: false };
        // The first read sets the mark from which changes count.
        watch
            .acknowledge()
            .map_err(|error| failed("read")(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        return Ok(Some(watch));
    }
    v1_watch(dir, &fd).map(Some)
}

fn v1_watch(dir: &Dir, control: &OwnedFd) -> Result<OomWatch> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(CgroupError::io("eventfd", &dir.path))?;
    let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
    dir.set("cgroup.event_control", &line)?;
    Ok(OomWatch { fd: event, eventfd: true })
}
