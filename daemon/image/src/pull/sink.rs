//! The way of a layer's bytes from the network to its worker.

use crate::registry::blob::{Sink, SinkGone};
use crate::unpack::wire::Source;
use bytes::Bytes;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

/// Bytes a pipe holds, if the kernel lets it.
const PIPE_BYTES: usize = 1 << 20;
/// The worker is told of new bytes in the spool file in steps of this size.
const STEP: u64 = 1 << 20;

/// A sink and the end that the worker reads from.
pub(super) struct Way {
    pub(super) sink: LayerSink,
    pub(super) data: OwnedFd,
    pub(super) source: Source,
}

/// Where a layer's bytes go.
pub(super) enum LayerSink {
    /// Straight to the worker.
    Pipe(pipe::Sender),
    /// To a file that the worker reads behind us.
    Spool(Spooled),
}

pub(super) struct Spooled {
    file: tokio::fs::File,
    /// Set once the worker is there.
    pub(super) socket: Option<UnixStream>,
    written: u64,
    told: u64,
}

/// A pipe.
pub(super) fn pipe(size: u64) -> io::Result<Way> {
    let (read, write) = io::pipe()?;
    // A smaller pipe is slower, nothing else.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
    let sink = LayerSink::Pipe(pipe::Sender::from_owned_fd(write.into())?);
    Ok(Way { sink, data: read.into(), source: Source::Pipe { size } })
}

/// A spool file in `dir`, already without a name: nothing of it can be left behind.
pub(super) fn spool(dir: &Path, size: u64) -> io::Result<Way> {
    let path = dir.join("blob");
    let write = std::fs::File::create_new(&path)?;
    let read = std::fs::File::open(&path)?;
    std::fs::remove_file(&path)?;
    let file = tokio::fs::File::from_std(write);
    let sink = LayerSink::Spool(Spooled { file, socket: None, written: 0, told: 0 });
    Ok(Way { sink, data: read.into(), source: Source::Spool { size } })
}

impl Sink for LayerSink {
    async fn write(&mut self, bytes: Bytes) -> Result<(), SinkGone> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(&bytes).await.map_err(|_| SinkGone),
            Self::Spool(spooled) => spooled.write(&bytes).await,
        }
    }
}

impl LayerSink {
    /// Everything has been written.
    pub(super) async fn finish(self) -> Result<(), SinkGone> {
        match self {
            Self::Pipe(_) => Ok(()),
            Self::Spool(mut spooled) => spooled.finish().await,
        }
    }
}

impl Spooled {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), SinkGone> {
        self.file.write_all(bytes).await.map_err(|_| SinkGone)?;
        self.written += u64::try_from(bytes.len()).unwrap_or(0);
        if self.written - self.told >= STEP {
            self.file.flush().await.map_err(|_| SinkGone)?;
            self.tell()?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), SinkGone> {
        self.file.flush().await.map_err(|_| SinkGone)?;
        while self.told < self.written {
            if !self.tell()? {
                // The worker is far behind and its queue is full.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// Tells how far the file may be read, unless the worker has not even taken what it was told before.
    fn tell(&mut self) -> Result<bool, SinkGone> {
        let Some(socket) = &self.socket else { return Ok(false) };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(socket, &self.written.to_le_bytes(), flags) {
            Ok(8) => {
                self.told = self.written;
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            _ => Err(SinkGone),
        }
    }
}
