//! Where a worker's compressed bytes come from: a pipe, or a spool file that is read behind its writer.

use super::wire::Source;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

/// The compressed layer as it arrives. Ends exactly at the layer's size; an earlier end is an error.
#[derive(Debug)]
pub struct Input {
    kind: Kind,
    size: u64,
    done: u64,
}

#[derive(Debug)]
enum Kind {
    Pipe(File),
    Spool { file: File, socket: UnixStream, readable: u64 },
}

impl Input {
    /// An input over `data`; `socket` brings the counts of readable bytes when it is a spool file.
    #[must_use]
    pub fn new(source: Source, data: OwnedFd, socket: UnixStream) -> Self {
        let data = File::from(data);
        match source {
            Source::Pipe { size } => Self { kind: Kind::Pipe(data), size, done: 0 },
            Source::Spool { size } => {
                Self { kind: Kind::Spool { file: data, socket, readable: 0 }, size, done: 0 }
            }
        }
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.done
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size - self.done).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        if want == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..want];
        let got = match &mut self.kind {
            Kind::Pipe(pipe) => pipe.read(buffer)?,
            Kind::Spool { file, socket, readable } => {
                while *readable <= self.done {
                    let mut count = [0u8; 8];
                    socket.read_exact(&mut count)?;
                    *readable = u64::from_le_bytes(count).min(self.size).max(*readable);
                }
                let ready = usize::try_from(*readable - self.done).unwrap_or(usize::MAX);
                let want = want.min(ready);
                file.read_at(&mut buffer[..want], self.done)?
            }
        };
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.done += u64::try_from(got).unwrap_or(0);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_spool_is_read_only_as_far_as_it_was_told() {
        let file = tempfile::tempfile().unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        file.write_at(b"abcdef", 0).unwrap();
        let data = OwnedFd::from(file.try_clone().unwrap());
        let mut input = Input::new(Source::Spool { size: 6 }, data, there);
        here.write_all(&2u64.to_le_bytes()).unwrap();
        let mut buffer = [0u8; 16];
        assert_eq!(input.read(&mut buffer).unwrap(), 2);
        here.write_all(&6u64.to_le_bytes()).unwrap();
        assert_eq!(input.read(&mut buffer).unwrap(), 4);
        assert_eq!(input.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn an_early_end_is_no_end() {
        let (read, mut write) = std::io::pipe().unwrap();
        let (_here, there) = UnixStream::pair().unwrap();
        write.write_all(b"abc").unwrap();
        drop(write);
        let mut input = Input::new(Source::Pipe { size: 4 }, read.into(), there);
        let mut all = Vec::new();
        assert_eq!(input.read_to_end(&mut all).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
