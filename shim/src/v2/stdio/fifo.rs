//! FIFOs of containerd's: opened without ever waiting inside the kernel, and kept open at both ends, so that a
//! containerd that goes and comes again meets the same stream.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};

use crate::error::{CallError, Step};

/// The other side has so long to open its end.
const READER_MAX: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What the process reads.
pub(super) struct Input {
    pub(super) reader: OwnedFd,
    /// A writing end of our own: the input does not end while nobody is attached.
    pub(super) keeper: OwnedFd,
}

/// Where the process's output goes.
pub(super) struct Output {
    pub(super) writer: OwnedFd,
    /// A reading end of our own: writing does not fail while nobody is attached.
    pub(super) keeper: OwnedFd,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Input, CallError> {
        let reader = open(path, OFlags::RDONLY).step(|| format!("open {} for reading", path.display()))?;
        let keeper = open(path, OFlags::WRONLY).step(|| format!("open {} for writing", path.display()))?;
        Ok(Input { reader, keeper })
    }
}

impl Output {
    /// Waits for a reader: what is written before there is one could be lost.
    pub(super) async fn open(path: &Path) -> Result<Output, CallError> {
        let step = || format!("open {} for writing, which nobody reads", path.display());
        let deadline = Instant::now() + READER_MAX;
        let writer = loop {
            match open(path, OFlags::WRONLY) {
                Err(Errno::NXIO) if Instant::now() < deadline => sleep(LOOK_AGAIN).await,
                other => break other.step(step)?,
            }
        };
        let keeper = open(path, OFlags::RDONLY).step(step)?;
        Ok(Output { writer, keeper })
    }
}

fn open(path: &Path, way: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, way | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}
