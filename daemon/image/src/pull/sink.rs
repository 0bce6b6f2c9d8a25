//! The way of a layer's bytes from the network to its worker.

use crate::registry::blob::{Sink, SinkGone};
use crate::threads;
use crate::unpack::wire::Source;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

/// Bytes a pipe holds, if the kernel lets it.
const PIPE_BYTES: usize = 1 << 20;
/// The worker is told of new bytes in the spool file in steps of this size.
const STEP: u64 = 1 << 20;
/// Pieces that wait for the disk.
const PIECES: usize = 16;

/// Both ends of a layer's way.
pub(super) struct Way {
    end: End,
    /// What the worker reads from.
    pub(super) data: OwnedFd,
    /// How it does so.
    pub(super) source: Source,
}

enum End {
    Pipe(OwnedFd),
    Spool(File),
}

/// Where a layer's bytes go.
pub(super) enum LayerSink {
    /// Straight to the worker.
    Pipe(pipe::Sender),
    /// To a file that the worker reads behind us.
    Spool(Spooled),
}

/// A file filled by a thread of its own: writing may wait for the disk.
pub(super) struct Spooled {
    to: mpsc::Sender<Bytes>,
    done: oneshot::Receiver<io::Result<()>>,
}

/// A pipe.
pub(super) fn pipe(size: u64) -> io::Result<Way> {
    let (read, write) = io::pipe()?;
    // A smaller pipe is slower, nothing else.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
    Ok(Way { end: End::Pipe(write.into()), data: read.into(), source: Source::Pipe { size } })
}

/// A spool file in `dir`, already without a name: nothing of it can be left behind.
pub(super) fn spool(dir: &Path, size: u64) -> io::Result<Way> {
    let path = dir.join("blob");
    let write = File::create_new(&path)?;
    let read = File::open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(Way { end: End::Spool(write), data: read.into(), source: Source::Spool { size } })
}

impl Way {
    /// Splits it: the worker's end, and a function that makes ours once the worker is there.
    pub(super) fn split(
        self,
    ) -> (OwnedFd, Source, impl FnOnce(Arc<UnixStream>) -> io::Result<LayerSink> + Send) {
        let Self { end, data, source } = self;
        let open = move |socket| match end {
            End::Pipe(write) => pipe::Sender::from_owned_fd(write).map(LayerSink::Pipe),
            End::Spool(file) => Spooled::start(file, socket).map(LayerSink::Spool),
        };
        (data, source, open)
    }
}

impl Sink for LayerSink {
    async fn write(&mut self, bytes: Bytes) -> Result<(), SinkGone> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(&bytes).await.map_err(|_| SinkGone),
            Self::Spool(spooled) => spooled.to.send(bytes).await.map_err(|_| SinkGone),
        }
    }
}

impl LayerSink {
    /// Nothing more comes. Says what went wrong on this side; a worker that is gone says so itself.
    pub(super) async fn end(self) -> io::Result<()> {
        match self {
            Self::Pipe(_) => Ok(()),
            Self::Spool(Spooled { to, done }) => {
                drop(to);
                done.await
                    .unwrap_or_else(|_| Err(io::Error::other("the thread that writes the spool file ended")))
            }
        }
    }
}

impl Spooled {
    fn start(file: File, socket: Arc<UnixStream>) -> io::Result<Self> {
        let (to, from) = mpsc::channel(PIECES);
        let (tell, done) = oneshot::channel();
        threads::spawn("berth-spool", move || {
            let written = fill(from, &file, &socket);
            // The answer still comes the other way. Without this a worker that was told of too little would wait for
            // ever, since this program keeps the socket open to read from it.
            let _ = shutdown(&*socket, Shutdown::Write);
            let _ = tell.send(written);
        })?;
        Ok(Self { to, done })
    }
}

/// Writes what comes and tells the worker how far it may read.
fn fill(mut from: mpsc::Receiver<Bytes>, mut file: &File, socket: &UnixStream) -> io::Result<()> {
    let (mut written, mut told) = (0u64, 0u64);
    while let Some(bytes) = from.blocking_recv() {
        file.write_all(&bytes)?;
        written += u64::try_from(bytes.len()).unwrap_or(0);
        if written - told >= STEP {
            match tell(socket, written) {
                Told::Yes => told = written,
                Told::Later => {}
                Told::Gone => return Ok(()),
            }
        }
    }
    while told < written {
        match tell(socket, written) {
            Told::Yes => told = written,
            // The worker is far behind and its queue is full.
            Told::Later => {
                poll(&mut [PollFd::new(socket, PollFlags::OUT)], None)?;
            }
            Told::Gone => return Ok(()),
        }
    }
    Ok(())
}

enum Told {
    Yes,
    Later,
    Gone,
}

/// Tells how far the file may be read, unless the worker has not even taken what it was told before.
fn tell(socket: &UnixStream, written: u64) -> Told {
    match send(socket, &written.to_le_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(8) => Told::Yes,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Told::Later,
        _ => Told::Gone,
    }
}
