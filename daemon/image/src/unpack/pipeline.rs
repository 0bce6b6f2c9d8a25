//! Decode, hash and apply at the same time: one thread decompresses, one hashes, the caller's applies the tar.

use super::apply::{Applied, Applier, ApplyError};
use super::decode;
use super::input::Input;
use super::limits::Limits;
use super::report::{Failure, FailureKind, Report};
use super::tar::{Reader, TarError};
use berth_snapshot::Digest;
use berth_snapshot::digest::Algorithm;
use ring::digest::{Context, SHA256, SHA512};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes per piece, and pieces under way: what bounds the memory of a worker.
const PIECE: usize = 128 << 10;
const UNDER_WAY: usize = 8;

type Piece = Arc<Vec<u8>>;

/// Applies the layer that `input` brings below `root`.
///
/// # Errors
/// The first thing that went wrong, in the order in which a reader would meet it.
pub fn run(input: Input, root: OwnedFd, algorithm: Algorithm, limits: Limits) -> Result<Report, Failure> {
    let (to_apply, decoded) = sync_channel::<io::Result<Piece>>(UNDER_WAY);
    let (to_hash, hashed) = sync_channel::<Piece>(UNDER_WAY);
    let decoder = spawn("decode", move || decode_all(input, limits, &to_apply))?;
    let hasher = spawn("hash", move || hash_all(&hashed, algorithm))?;
    let mut tar = Reader::new(Pieces { from: decoded, to_hash, current: Piece::default(), at: 0 });
    let applied = Applier::new(root, limits).apply(&mut tar);
    let result = applied.and_then(|applied| {
        // Whatever follows the end mark is part of the digest all the same.
        io::copy(&mut tar.into_inner(), &mut io::sink())
            .map_err(|error| ApplyError::from(TarError::Read(error)))?;
        Ok(applied)
    });
    let ended = decoder.join();
    let digest = hasher.join();
    let report = finish(result, ended, digest)?;
    report.within(&limits)?;
    Ok(report)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, Failure> {
    thread::Builder::new().name(name.to_owned()).stack_size(512 << 10).spawn(work).map_err(|error| Failure {
        kind: FailureKind::Internal,
        text: format!("start the {name} thread: {error}"),
    })
}

fn finish(
    applied: Result<Applied, ApplyError>,
    decoded: thread::Result<()>,
    hashed: thread::Result<Result<(Digest, u64), String>>,
) -> Result<Report, Failure> {
    let applied = applied.map_err(|error| match &error {
        ApplyError::Tar(TarError::Read(read)) if read.kind() == io::ErrorKind::UnexpectedEof => {
            Failure { kind: FailureKind::Truncated, text: berth_core::error::chain(&error) }
        }
        _ => Failure::from(error),
    })?;
    let internal = |text: String| Failure { kind: FailureKind::Internal, text };
    decoded.map_err(|_| internal("the decoder panicked".into()))?;
    let hashed = hashed.map_err(|_| internal("the hasher panicked".into()))?;
    let (diff_id, bytes) = hashed.map_err(internal)?;
    Ok(applied.into_report(diff_id, bytes))
}

/// Sends every decoded piece; the last message is an error if there was one.
fn decode_all(input: Input, limits: Limits, to: &SyncSender<io::Result<Piece>>) {
    let taken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Counted { input, taken: Arc::clone(&taken) };
    let mut decoder = match decode::open(counted) {
        Ok(decoder) => decoder,
        Err(error) => {
            let _ = to.send(Err(error));
            return;
        }
    };
    let mut output: u64 = 0;
    loop {
        let mut piece = vec![0; PIECE];
        let filled = fill(&mut decoder, &mut piece);
        let message = match filled {
            Ok(0) => return,
            Ok(count) => {
                piece.truncate(count);
                output += u64::try_from(count).unwrap_or(0);
                if limits.is_bomb(taken.load(std::sync::atomic::Ordering::Relaxed), output) {
                    Err(io::Error::new(
                        io::ErrorKind::FileTooLarge,
                        "the layer decompresses to far more than it is",
                    ))
                } else {
                    Ok(Piece::new(piece))
                }
            }
            Err(error) => Err(error),
        };
        let last = message.is_err();
        if to.send(message).is_err() || last {
            return;
        }
    }
}

/// Fills the buffer as far as the stream goes. An error after some bytes comes up again at the next read.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

struct Counted {
    input: Input,
    taken: Arc<std::sync::atomic::AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.input.read(buffer)?;
        self.taken.store(self.input.taken(), std::sync::atomic::Ordering::Relaxed);
        Ok(got)
    }
}

fn hash_all(from: &Receiver<Piece>, algorithm: Algorithm) -> Result<(Digest, u64), String> {
    let mut context = Context::new(match algorithm {
        Algorithm::Sha256 => &SHA256,
        Algorithm::Sha512 => &SHA512,
    });
    let mut bytes: u64 = 0;
    for piece in from {
        context.update(&piece);
        bytes += u64::try_from(piece.len()).unwrap_or(0);
    }
    let digest =
        Digest::from_bytes(algorithm, context.finish().as_ref()).map_err(|error| error.to_string())?;
    Ok((digest, bytes))
}

/// The decoded stream as a reader that shows each piece to the hasher first.
struct Pieces {
    from: Receiver<io::Result<Piece>>,
    to_hash: SyncSender<Piece>,
    current: Piece,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.current.len() {
            match self.from.recv() {
                Err(_) => return Ok(0),
                Ok(piece) => self.current = piece?,
            }
            self.at = 0;
            self.to_hash
                .send(Arc::clone(&self.current))
                .map_err(|_| io::Error::other("the hasher is gone"))?;
        }
        let ready = &self.current[self.at..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.at += count;
        Ok(count)
    }
}
