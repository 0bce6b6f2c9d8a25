//! Learning that the OOM killer struck.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode as FileMode, OFlags, openat};
use rustix::io::{Errno, pread, read};

use crate::error::{CgroupError, Result};
use crate::file::{Dir, lookup};
use crate::group::places::Places;
use crate::hierarchy::Mode;

/// A descriptor to poll. It says only "look": it also wakes when the group is removed, and when a limit was hit
/// without a kill, so read [`crate::Cgroup::oom_kills`] then.
#[derive(Debug)]
pub struct OomWatch(Source);

#[derive(Debug)]
enum Source {
    /// v1.
    Notices(Arc<Notices>),
    /// v2: `memory.events`.
    File(OwnedFd),
}

impl AsFd for OomWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Source::Notices(notices) => notices.struck.fd.as_fd(),
            Source::File(fd) => fd.as_fd(),
        }
    }
}

impl OomWatch {
    /// What to poll for: on v1 the descriptor becomes readable (POLLIN); on v2 it is always readable, and has a
    /// priority event (POLLPRI) when the counters changed.
    pub fn is_priority(&self) -> bool {
        matches!(self.0, Source::File(_))
    }

    /// Takes the event, so that the descriptor is quiet until the next one.
    ///
    /// # Errors
    /// The failed read; ENODEV when the group is gone.
    pub fn acknowledge(&self) -> std::io::Result<()> {
        match &self.0 {
            Source::Notices(notices) => notices.struck.total().map(drop).map_err(Into::into),
            Source::File(fd) => match pread(fd, &mut [0; 512], 0) {
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
        }
    }
}

/// What v1 tells by event: each time that the group ran out of memory, and once more when the group is removed. systemd
/// removes a scope with its last process, and the counter with it, before anybody can read that; the notices stay.
#[derive(Debug)]
pub(crate) struct Notices {
    struck: Event,
    /// For a threshold that no use of memory reaches, so that only the removal is told.
    gone: Event,
}

/// An eventfd and all that it ever told.
#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    seen: AtomicU64,
}

impl Event {
    fn new(dir: &Dir) -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(CgroupError::io("eventfd", &dir.path))?;
        Ok(Self { fd, seen: AtomicU64::new(0) })
    }

    /// Asks the kernel for the events of a file of the group.
    fn register(&self, dir: &Dir, file: &str, more: &str) -> Result<()> {
        let control = openat(&dir.fd, file, OFlags::RDONLY | OFlags::CLOEXEC, FileMode::empty())
            .map_err(CgroupError::io("open", dir.path.join(file)))?;
        dir.set("cgroup.event_control", &format!("{} {}{more}", self.fd.as_raw_fd(), control.as_raw_fd()))
    }

    fn total(&self) -> std::result::Result<u64, Errno> {
        let mut news = [0; 8];
        let news = match read(&self.fd, &mut news) {
            Ok(_) => u64::from_ne_bytes(news),
            Err(Errno::AGAIN) => 0,
            Err(errno) => return Err(errno),
        };
        Ok(self.seen.fetch_add(news, Ordering::Relaxed) + news)
    }
}

/// The kernel takes a threshold's notice of the removal through a grace period of RCU, the other one's not: so much later it may
/// come. Only the group of a process that was killed and that systemd removed at once waits so long.
const TRIES: u32 = 40;
const WAIT: Duration = Duration::from_millis(5);

impl Notices {
    fn register(dir: &Dir) -> Result<Self> {
        let notices = Self { struck: Event::new(dir)?, gone: Event::new(dir)? };
        notices.gone.register(dir, "memory.usage_in_bytes", &format!(" {}", i64::MAX))?;
        notices.struck.register(dir, "memory.oom_control", "")?;
        Ok(notices)
    }

    /// How often the group ran out of memory.
    fn struck(&self) -> u64 {
        let told = || {
            // In this order: of a removal that comes in between, one too many is seen and never one too few.
            let gone = self.gone.total().unwrap_or(0);
            (self.struck.total().unwrap_or(0), gone)
        };
        for _ in 0..TRIES {
            match told() {
                // A kill, or the removal that `gone` does not tell of yet.
                (1, 0) => std::thread::sleep(WAIT),
                (struck, gone) => return struck.saturating_sub(gone),
            }
        }
        1
    }
}

/// The kernel's counter; of a group that is gone, what was told of it.
pub(crate) fn kills(mode: Mode, places: &Places, notices: Option<&Notices>) -> Option<u64> {
    match mode {
        Mode::V2 => places.unified.as_ref()?.keyed("memory.events", "oom_kill"),
        Mode::V1 | Mode::Hybrid => match places.v1_dir("memory")?.read("memory.oom_control") {
            Ok(text) => lookup(&text, "oom_kill"),
            Err(_) => notices.map(Notices::struck),
        },
    }
}

pub(crate) fn watch(
    mode: Mode,
    places: &Places,
    notices: &OnceLock<Arc<Notices>>,
) -> Result<Option<OomWatch>> {
    let file = if mode == Mode::V2 { "memory.events" } else { "memory.oom_control" };
    let Some(dir) = places.dir(mode, "memory").filter(|dir| dir.exists(file)) else { return Ok(None) };
    if mode != Mode::V2 {
        let fresh = Arc::new(Notices::register(dir)?);
        return Ok(Some(OomWatch(Source::Notices(notices.get_or_init(|| fresh).clone()))));
    }
    let failed = |step| CgroupError::io(step, dir.path.join(file));
    let fd =
        openat(&dir.fd, file, OFlags::RDONLY | OFlags::CLOEXEC, FileMode::empty()).map_err(failed("open"))?;
    let watch = OomWatch(Source::File(fd));
    // The first read sets the mark from which changes count.
    watch.acknowledge().map_err(|error| failed("read")(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    Ok(Some(watch))
}
