//! Carries a container's output into its log, for as long as anybody holds the other end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_core::Timestamp;
use berth_core::log::{Splitter, Stream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::buffers::{Buffers, WRITE_AT};
use super::log_file::{self, LogFile};
use super::source::{Got, Source};
use super::turns::Turns;

/// After so long without a pause others have their turn.
const TURN_MAX: Duration = Duration::from_millis(50);

/// A stream that paused for so long has nothing more to say now.
const PATIENCE: Duration = Duration::from_millis(10);

/// The output of one container: up to two streams and the log they share.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    log: Arc<Mutex<LogFile>>,
    turns: Turns,
    /// Turns true when the container's first process has been reaped.
    ended: watch::Sender<bool>,
    counts: watch::Receiver<Counts>,
    pumps: Vec<AbortHandle>,
}

/// How many streams there are.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// They have not reached their end.
    open: usize,
    /// They still owe what was in them when the first process ended.
    owing: usize,
}

impl Output {
    /// Starts carrying `streams`. Must be called within the runtime.
    pub(crate) fn start(
        streams: Vec<(Stream, OwnedFd)>,
        log: LogFile,
        line_max: usize,
        turns: &Turns,
    ) -> io::Result<Output> {
        let path = log.path().to_owned();
        let log = Arc::new(Mutex::new(log));
        let (ended, _) = watch::channel(false);
        let (counting, counts) = watch::channel(Counts { open: streams.len(), owing: streams.len() });
        let counting = Arc::new(counting);
        let mut pumps = Vec::new();
        for (stream, fd) in streams {
            let source = Arc::new(Source::new(fd)?);
            let splitter = Splitter::new(stream, line_max);
            let pump = Pump {
                work: Some(Work { source: source.clone(), splitter, log: log.clone() }),
                source,
                turns: turns.clone(),
                counting: counting.clone(),
                owes: true,
            };
            pumps.push(crate::background::spawn(pump.run(ended.subscribe())).abort_handle());
        }
        Ok(Output { path, log, turns: turns.clone(), ended, counts, pumps })
    }

    /// The container's first process is gone: waits until all it wrote is in the log. A process that holds the
    /// pipe open, and may write for ever, is waited for no longer than `limit`.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.ended.send_replace(true);
        let mut counts = self.counts.clone();
        let _late = tokio::time::timeout(limit, counts.wait_for(|counts| counts.owing == 0)).await;
    }

    /// All of the container's processes are gone: waits for the streams' ends.
    pub(crate) async fn finish(&self, limit: Duration) {
        let mut counts = self.counts.clone();
        let _late = tokio::time::timeout(limit, counts.wait_for(|counts| counts.open == 0)).await;
    }

    /// Goes on in a new file at the log's path, from a record's beginning.
    pub(crate) async fn reopen(&self) -> io::Result<()> {
        if self.path.as_os_str().is_empty() {
            return Ok(());
        }
        let (path, log, counts) = (self.path.clone(), self.log.clone(), self.counts.clone());
        let reopen = move |_: &mut Buffers| {
            let file = log_file::open(&path)?;
            let mut log = lock(&log);
            // A container whose streams have ended gets its file, and no descriptor is kept.
            if counts.borrow().open > 0 {
                log.replace(file);
            }
            Ok(())
        };
        self.turns.run(reopen).await.unwrap_or_else(|| Err(io::Error::other("the shim panicked")))
    }

    /// Where the log is.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
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
    source: Arc<Source>,
    /// With a thread while it is this stream's turn.
    work: Option<Work>,
    turns: Turns,
    counting: Arc<watch::Sender<Counts>>,
    owes: bool,
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
        let source = self.source.clone();
        loop {
            let turn = tokio::select! {
                biased;
                () = told(&mut ended), if self.owes => self.drain().await,
                ready = source.readable() => match ready {
                    Ok(mut ready) => {
                        let turn = self.turn(PATIENCE).await;
                        if turn == Turn::Empty {
                            ready.clear_ready();
                        }
                        turn
                    }
                    Err(error) => failed(&error),
                },
            };
            if turn == Turn::End {
                break;
            }
        }
        self.flush().await;
        self.count(|counts| counts.open -= 1);
        // The last stream's end is the log's.
        if let Some(work) = self.work.take().filter(|_| self.counting.borrow().open == 0) {
            let _closed = self.turns.run(move |_| lock(&work.log).close()).await;
        }
    }

    /// Takes all that was written before the process ended, then counts as drained. Whoever still holds the
    /// pipe goes on with a line of its own.
    async fn drain(&mut self) -> Turn {
        let found = loop {
            match self.turn(Duration::ZERO).await {
                Turn::More => {}
                found => break found,
            }
        };
        self.flush().await;
        self.count(|_| {});
        found
    }

    async fn turn(&mut self, patience: Duration) -> Turn {
        let turn = self.on_a_thread(move |work, buffers| work.turn(buffers, patience)).await;
        turn.unwrap_or(Turn::End)
    }

    async fn flush(&mut self) {
        let _panicked = self.on_a_thread(|work, _| work.flush()).await;
    }

    async fn on_a_thread<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut Work, &mut Buffers) -> T + Send + 'static,
    ) -> Option<T> {
        let mut work = self.work.take()?;
        let turn = move |buffers: &mut Buffers| {
            let result = act(&mut work, buffers);
            (work, result)
        };
        let (work, result) = self.turns.run(turn).await?;
        self.work = Some(work);
        Some(result)
    }

    /// Counts this stream as drained, and whatever else.
    fn count(&mut self, change: impl FnOnce(&mut Counts)) {
        let owed = std::mem::replace(&mut self.owes, false);
        self.counting.send_modify(|counts| {
            counts.owing -= usize::from(owed);
            change(counts);
        });
    }
}

async fn told(ended: &mut watch::Receiver<bool>) {
    let _ended = ended.wait_for(|ended| *ended).await;
}

/// One stream, as a thread sees it.
struct Work {
    source: Arc<Source>,
    splitter: Splitter,
    log: Arc<Mutex<LogFile>>,
}

impl Work {
    /// Reads and writes until nothing has come for a while or the turn is over.
    fn turn(&mut self, buffers: &mut Buffers, patience: Duration) -> Turn {
        let over = Instant::now() + TURN_MAX;
        loop {
            buffers.input.clear();
            match self.source.read(&mut buffers.input) {
                Ok(Got::Bytes(_)) => self.record(buffers),
                Ok(Got::End) => return Turn::End,
                Ok(Got::Empty) => {
                    if patience.is_zero() || Instant::now() >= over || !self.source.wait(patience) {
                        self.splitter.release();
                        return Turn::Empty;
                    }
                }
                Err(error) => return failed(&error),
            }
            if Instant::now() >= over {
                return Turn::More;
            }
        }
    }

    /// One read becomes records, all with the time of the read.
    fn record(&mut self, buffers: &mut Buffers) {
        let at = Timestamp::now();
        let mut log = lock(&self.log);
        if log.discards() {
            return;
        }
        let mut rest = buffers.input.as_slice();
        while !rest.is_empty() {
            buffers.output.clear();
            let taken = self.splitter.push(at, rest, &mut buffers.output, WRITE_AT);
            log.append(&buffers.output);
            rest = &rest[taken..];
        }
    }

    fn flush(&mut self) {
        let mut rest = Vec::new();
        self.splitter.finish(Timestamp::now(), &mut rest);
        lock(&self.log).append(&rest);
    }
}

fn failed(error: &io::Error) -> Turn {
    crate::say!("reading a container's output: {error}");
    Turn::End
}

fn lock(log: &Mutex<LogFile>) -> std::sync::MutexGuard<'_, LogFile> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
