//! Learning that the OOM killer struck.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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
            Source::Notices(notices) => notices.fd.as_fd(),
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
            Source::Notices(notices) => notices.told().map(drop).map_err(Into::into),
            Source::File(fd) => match pread(fd, &mut [0; 512], 0) {
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
        }
    }
}

/// What v1 tells by event: each time that the group ran out of memory, and once more some time after the group was removed.
/// systemd removes a scope with its last process, and the counter with it, before anybody can read that; the notices stay.
#[derive(Debug)]
pub(crate) struct Notices {
    fd: OwnedFd,
    told: Mutex<Told>,
    /// What was made of them once the counter was gone.
    judged: OnceLock<u64>,
}

#[derive(Debug, Default)]
struct Told {
    /// Notices that may still be of a kill that the counter did not show.
    open: u64,
    last: Option<Instant>,
    /// The counter, when it was read last.
    counter: u64,
}

impl Told {
    /// The kernel tells every group below the one that ran out of memory; who was not killed soon after was not meant.
    fn forget_old(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() > SOON) {
            self.open = 0;
        }
    }
}

const SOON: Duration = Duration::from_secs(5);

/// How long the notice of the removal is waited for. It takes a grace period of RCU, tens of milliseconds on a busy machine.
const TRIES: u32 = 60;
const WAIT: Duration = Duration::from_millis(5);

impl Notices {
    fn register(dir: &Dir, file: &str) -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(CgroupError::io("eventfd", &dir.path))?;
        let control = openat(&dir.fd, file, OFlags::RDONLY | OFlags::CLOEXEC, FileMode::empty())
            .map_err(CgroupError::io("open", dir.path.join(file)))?;
        dir.set("cgroup.event_control", &format!("{} {}", fd.as_raw_fd(), control.as_raw_fd()))?;
        Ok(Self { fd, told: Mutex::default(), judged: OnceLock::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what there is to take; how many notices are open.
    fn told(&self) -> std::result::Result<u64, Errno> {
        let mut news = [0; 8];
        let news = match read(&self.fd, &mut news) {
            Ok(_) => u64::from_ne_bytes(news),
            Err(Errno::AGAIN) => 0,
            Err(errno) => return Err(errno),
        };
        let mut told = self.lock();
        told.forget_old();
        if news > 0 {
            told.open += news;
            told.last = Some(Instant::now());
        }
        Ok(told.open)
    }

    /// The counter could be read.
    fn counted(&self, kills: u64) {
        let mut told = self.lock();
        if kills > told.counter {
            (told.counter, told.open) = (kills, 0);
        }
    }

    /// How many kills there were in a group that is gone.
    fn judge(&self) -> u64 {
        *self.judged.get_or_init(|| {
            for _ in 0..TRIES {
                match self.told().unwrap_or(0) {
                    // Who dies of it has been told of before.
                    0 => break,
                    // That, or the removal: only with the second notice one knows.
                    1 => std::thread::sleep(WAIT),
                    more => return self.lock().counter + more - 1,
                }
            }
            self.lock().counter
        })
    }
}

/// The kernel's counter; of a group that is gone, what was told of it.
pub(crate) fn kills(mode: Mode, places: &Places, notices: Option<&Notices>) -> Option<u64> {
    match mode {
        Mode::V2 => places.unified.as_ref()?.keyed("memory.events", "oom_kill"),
        Mode::V1 | Mode::Hybrid => match places.v1_dir("memory")?.read("memory.oom_control") {
            Ok(text) => lookup(&text, "oom_kill")
                .inspect(|kills| notices.into_iter().for_each(|notices| notices.counted(*kills))),
            Err(Errno::NOENT | Errno::NODEV) => notices.map(Notices::judge),
            Err(_) => None,
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
        let fresh = Arc::new(Notices::register(dir, file)?);
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
