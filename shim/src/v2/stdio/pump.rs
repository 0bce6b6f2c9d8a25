//! Copying between a process's streams and where they lead. A buffer exists only while there is something in it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::io::source::{Got, Source};
use crate::io::watched::watched;

/// So much at a time.
const CHUNK: usize = 32 << 10;

/// What a terminal takes for the end of its input, twice: the first may only end a line that was begun.
const END_OF_INPUT: &[u8] = &[4, 4];

/// Where output goes.
pub(super) enum Sink {
    /// A FIFO or pipe; with a reading end of our own, if there is to be one.
    Stream {
        writer: OwnedFd,
        keeper: Option<OwnedFd>,
    },
    File(Arc<OwnedFd>),
}

/// What takes bytes.
enum Writer {
    /// When it can.
    Stream {
        to: AsyncFd<OwnedFd>,
        _keeper: Option<OwnedFd>,
    },
    File(File),
}

impl Writer {
    fn stream(fd: OwnedFd, _keeper: Option<OwnedFd>) -> io::Result<Writer> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Writer::Stream { to: watched(fd, Interest::WRITABLE)?, _keeper })
    }

    fn new(sink: Sink) -> io::Result<Writer> {
        match sink {
            Sink::Stream { writer, keeper } => Writer::stream(writer, keeper),
            Sink::File(file) => Ok(Writer::File(File::from(file.as_fd().try_clone_to_owned()?))),
        }
    }

    async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let stream = match self {
            Writer::Stream { to, .. } => to,
            Writer::File(file) => {
                // A full disk costs these bytes, not the process.
                let _lost = file.write_all(bytes);
                return Ok(());
            }
        };
        while !bytes.is_empty() {
            match rustix::io::write(stream.get_ref(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => stream.writable().await?.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Copies until `source` ends. Must be called within the event loop.
pub(super) fn output(source: OwnedFd, sink: Sink) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (source, mut writer) = (Source::new(source)?, Writer::new(sink)?);
    Ok(async move {
        let _end = copy(&source, &mut writer).await;
    })
}

/// Copies until `source` ends, then ends the process's input. Must be called within the event loop.
pub(super) fn input(
    source: OwnedFd,
    to: OwnedFd,
    is_terminal: bool,
) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (source, mut writer) = (Source::new(source)?, Writer::stream(to, None)?);
    Ok(async move {
        if copy(&source, &mut writer).await && is_terminal {
            let _gone = writer.write_all(END_OF_INPUT).await;
        }
    })
}

/// Whether it came to the end of `source`, and not to a writer that takes no more.
async fn copy(source: &Source, writer: &mut Writer) -> bool {
    let mut buffer = Vec::new();
    loop {
        let Ok(mut ready) = source.readable().await else { return true };
        buffer.reserve_exact(CHUNK);
        match source.read(&mut buffer) {
            Ok(Got::Bytes(_)) => {
                if writer.write_all(&buffer).await.is_err() {
                    return false;
                }
                buffer.clear();
            }
            Ok(Got::Empty) => {
                ready.clear_ready();
                buffer = Vec::new();
            }
            Ok(Got::End) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::io::Read;

    #[tokio::test(flavor = "current_thread")]
    async fn everything_arrives_and_the_end_too() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (result, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let sent: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
        let writing = std::thread::spawn({
            let sent = sent.clone();
            move || File::from(writer).write_all(&sent)
        });
        let reading = std::thread::spawn(move || {
            let mut got = Vec::new();
            File::from(result).read_to_end(&mut got).map(|_| got)
        });
        input(reader, to, false).unwrap().await;
        writing.join().unwrap().unwrap();
        assert!(reading.join().unwrap().unwrap() == sent);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_reader_that_is_gone_ends_it() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (result, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        drop(result);
        File::from(writer.try_clone().unwrap()).write_all(b"x").unwrap();
        input(reader, to, true).unwrap().await;
        drop(writer);
    }
}
