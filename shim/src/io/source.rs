//! The reading end of a program's output.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::watched::watched;

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Empty,
    /// Nothing any more.
    End,
}

/// A pipe or a terminal's master, never blocking.
#[derive(Debug)]
pub(crate) struct Source {
    fd: AsyncFd<OwnedFd>,
}

impl Source {
    /// Takes over a descriptor. Must be called within the runtime.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Source> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Source { fd: watched(fd, Interest::READABLE)? })
    }

    /// Waits until there may be something to read. Clear the guard after a read that found nothing.
    pub(crate) async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.fd.readable().await
    }

    /// Blocks until there may be something to read, or for so long.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let mut polled = [PollFd::new(self.fd.get_ref(), PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        matches!(poll(&mut polled, Some(&patience)), Ok(count) if count > 0)
    }

    /// Reads what is there now, whether readiness was announced or not, into the unused capacity of `buffer`.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>) -> io::Result<Got> {
        loop {
            match rustix::io::read(self.fd.get_ref(), rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => return Ok(Got::End),
                Ok(bytes) => return Ok(Got::Bytes(bytes)),
                Err(Errno::AGAIN) => return Ok(Got::Empty),
                Err(Errno::INTR) => {}
                // A terminal whose last program has gone.
                Err(Errno::IO) => return Ok(Got::End),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
