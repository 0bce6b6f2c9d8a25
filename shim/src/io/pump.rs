//! Carries a container's output into its log, for as long as anybody holds the other end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::Timestamp;
use berth_core::log::{Splitter, Stream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::buffers::{Buffers, Pool, WRITE_AT};
use super::log_file::LogFile;
use super::source::{Got, Source};

/// After so many reads without a pause the other tasks have their turn.
const READS_PER_TURN: usize = 4;

/// The output of one container: up to two streams and the log they share.
#[derive(Debug)]
pub(crate) struct Output {
    log: Arc<Mutex<LogFile>>,
    /// Turns true when the container's first process has been reaped.
    ended: watch::Sender<bool>,
    /// How many streams still owe what was in them at that moment.
    owing: watch::Receiver<usize>,
    pumps: Vec<AbortHandle>,
}

impl Output {
    /// Starts carrying `streams`. Must be called within the runtime.
    pub(crate) fn start(
        streams: Vec<(Stream, OwnedFd)>,
        log: LogFile,
        line_max: usize,
        pool: &Pool,
    ) -> io::Result<Output> {
        let log = Arc::new(Mutex::new(log));
        let (ended, _) = watch::channel(false);
        let (owing, owed) = watch::channel(streams.len());
        let owing = Arc::new(owing);
        let mut pumps = Vec::new();
        for (stream, fd) in streams {
            let pump = Pump {
                source: Source::new(fd)?,
                splitter: Splitter::new(stream, line_max),
                log: log.clone(),
                pool: pool.clone(),
                owing: owing.clone(),
            };
            pumps.push(tokio::spawn(pump.run(ended.subscribe())).abort_handle());
        }
        Ok(Output { log, ended, owing: owed, pumps })
    }

    /// The container's first process is gone: waits until all it wrote is in the log. A process that holds the
    /// pipe open, and may write for ever, is waited for no longer than `limit`.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.ended.send_replace(true);
        let mut owing = self.owing.clone();
        let _late = tokio::time::timeout(limit, owing.wait_for(|owing| *owing == 0)).await;
    }

    /// The log, between two records.
    pub(crate) fn log(&self) -> MutexGuard<'_, LogFile> {
        lock(&self.log)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        for pump in &self.pumps {
            pump.abort();
        }
    }
}

struct Pump {
    source: Source,
    splitter: Splitter,
    log: Arc<Mutex<LogFile>>,
    pool: Pool,
    owing: Arc<watch::Sender<usize>>,
}

/// What a turn found at last.
#[derive(PartialEq, Eq)]
enum Turn {
    More,
    Empty,
    End,
}

impl Pump {
    async fn run(mut self, mut ended: watch::Receiver<bool>) {
        let mut owes = true;
        loop {
            let turn = tokio::select! {
                biased;
                () = told(&mut ended), if owes => self.drain(&mut owes).await,
                ready = self.source.readable() => match ready {
                    Ok(mut ready) => {
                        let turn = turn(&self.source, &mut self.splitter, &self.log, &self.pool);
                        if turn == Turn::Empty {
                            ready.clear_ready();
                        }
                        turn
                    }
                    Err(error) => failed(&error),
                },
            };
            match turn {
                Turn::More => tokio::task::yield_now().await,
                Turn::Empty => self.splitter.release(),
                Turn::End => break,
            }
        }
        self.flush();
        if owes {
            self.owing.send_modify(|owing| *owing -= 1);
        }
        // Nobody but the other stream holds the log now; the last of them closes it.
        if Arc::strong_count(&self.owing) == 1 {
            lock(&self.log).close();
        }
    }

    /// Takes all that was written before the process ended, then counts as drained. Whoever still holds the
    /// pipe goes on with a line of its own.
    async fn drain(&mut self, owes: &mut bool) -> Turn {
        let found = loop {
            match turn(&self.source, &mut self.splitter, &self.log, &self.pool) {
                Turn::More => tokio::task::yield_now().await,
                found => break found,
            }
        };
        self.flush();
        *owes = false;
        self.owing.send_modify(|owing| *owing -= 1);
        found
    }

    fn flush(&mut self) {
        let mut rest = Vec::new();
        self.splitter.finish(Timestamp::now(), &mut rest);
        lock(&self.log).append(&rest);
    }
}

async fn told(ended: &mut watch::Receiver<bool>) {
    let _ended = ended.wait_for(|ended| *ended).await;
}

/// Reads and writes until nothing is left or the turn is over.
fn turn(source: &Source, splitter: &mut Splitter, log: &Mutex<LogFile>, pool: &Pool) -> Turn {
    pool.with(|buffers| {
        for _ in 0..READS_PER_TURN {
            buffers.input.clear();
            match source.read(&mut buffers.input) {
                Ok(Got::Bytes(_)) => record(splitter, log, buffers),
                Ok(Got::Empty) => return Turn::Empty,
                Ok(Got::End) => return Turn::End,
                Err(error) => return failed(&error),
            }
        }
        Turn::More
    })
}

/// One read becomes records, all with the time of the read.
fn record(splitter: &mut Splitter, log: &Mutex<LogFile>, buffers: &mut Buffers) {
    let at = Timestamp::now();
    let mut log = lock(log);
    if log.discards() {
        return;
    }
    let mut rest = buffers.input.as_slice();
    while !rest.is_empty() {
        buffers.output.clear();
        let taken = splitter.push(at, rest, &mut buffers.output, WRITE_AT);
        log.append(&buffers.output);
        rest = &rest[taken..];
    }
}

fn failed(error: &io::Error) -> Turn {
    crate::say!("reading a container's output: {error}");
    Turn::End
}

fn lock(log: &Mutex<LogFile>) -> MutexGuard<'_, LogFile> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::log::parse;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    fn records(path: &Path) -> Vec<(bool, String)> {
        let log = std::fs::read(path).unwrap();
        let lines = log.split_inclusive(|byte| *byte == b'\n');
        let read = lines.map(|line| parse(line).unwrap());
        read.map(|record| (record.full, String::from_utf8(record.content.to_vec()).unwrap())).collect()
    }

    fn output(path: &Path) -> (Output, File, File) {
        let (out, out_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (err, err_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let log = LogFile::open(path.to_owned()).unwrap();
        let streams = vec![(Stream::Stdout, out), (Stream::Stderr, err)];
        let output = Output::start(streams, log, 0, &Pool::default()).unwrap();
        (output, out_end.into(), err_end.into())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_unfinished_line_is_there_when_the_end_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let (output, mut out, err) = output(&path);
        out.write_all(b"a\nb").unwrap();
        drop((out, err));
        output.drain(Duration::from_secs(9)).await;
        assert_eq!(records(&path), [(true, "a".into()), (true, "b".into())]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn whoever_holds_the_pipe_delays_nothing_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let (output, mut out, err) = output(&path);
        out.write_all(b"from the container").unwrap();
        let before = std::time::Instant::now();
        output.drain(Duration::from_secs(9)).await;
        assert!(before.elapsed() < Duration::from_secs(5));
        assert_eq!(records(&path), [(true, "from the container".into())]);
        out.write_all(b"late\n").unwrap();
        drop((out, err));
        let mut waited = 0;
        while records(&path).len() < 2 && waited < 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            waited += 1;
        }
        assert_eq!(records(&path)[1], (true, "late".into()));
        while output.log().is_open() && waited < 400 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            waited += 1;
        }
        assert!(!output.log().is_open(), "nothing writes any more: closed");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_mebibyte_without_a_newline_joins_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let (output, mut out, err) = output(&path);
        let writer = std::thread::spawn(move || out.write_all(&vec![b'x'; 1 << 20]));
        drop(err);
        tokio::task::yield_now().await;
        while !writer.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        writer.join().unwrap().unwrap();
        output.drain(Duration::from_secs(9)).await;
        let records = records(&path);
        assert_eq!(records.len(), 64);
        assert!(records.iter().rev().skip(1).all(|(full, text)| !full && text.len() == 16_384));
        assert_eq!(records.last().map(|(full, text)| (*full, text.len())), Some((true, 16_384)));
    }
}
