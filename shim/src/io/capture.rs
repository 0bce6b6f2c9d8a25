//! Output of an exec, kept up to a limit; what is beyond is read and counted as lost, so that nobody blocks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

use super::source::{Got, Source};

/// What is read at once; grows into the kept bytes themselves.
const STEP: usize = 16 << 10;

/// What was captured of one stream.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// The first bytes, up to the limit.
    pub(crate) bytes: Vec<u8>,
    /// There was more.
    pub(crate) truncated: bool,
}

/// A stream under capture; dropped, it stops reading.
#[derive(Debug)]
pub(crate) struct Capture {
    captured: Arc<Mutex<Captured>>,
    task: Option<tokio::task::JoinHandle<()>>,
    abort: AbortHandle,
}

impl Capture {
    /// Starts reading. At most `limit` bytes are kept, and what is kept counts against a budget shared with others. Must be called within the runtime.
    pub(crate) fn start(fd: OwnedFd, limit: usize, budget: Arc<AtomicUsize>) -> io::Result<Capture> {
        let source = Source::new(fd)?;
        let captured = Arc::new(Mutex::new(Captured::default()));
        let task = crate::background::spawn(read_all(source, captured.clone(), limit, budget));
        Ok(Capture { captured, abort: task.abort_handle(), task: Some(task) })
    }

    /// Waits for the stream's end. May be dropped and called again.
    pub(crate) async fn ended(&mut self) {
        if let Some(task) = &mut self.task {
            let _panicked = task.await;
            self.task = None;
        }
    }

    /// What there is now.
    pub(crate) fn take(self) -> Captured {
        std::mem::take(&mut *self.captured.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

async fn read_all(source: Source, captured: Arc<Mutex<Captured>>, limit: usize, budget: Arc<AtomicUsize>) {
    loop {
        let Ok(mut ready) = source.readable().await else { return };
        let got = {
            let mut captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
            captured.read(&source, limit, &budget)
        };
        match got {
            Ok(Got::Bytes(_)) => tokio::task::yield_now().await,
            Ok(Got::Empty) => ready.clear_ready(),
            Ok(Got::End) | Err(_) => return,
        }
    }
}

impl Captured {
    fn read(&mut self, source: &Source, limit: usize, budget: &AtomicUsize) -> io::Result<Got> {
        let before = self.bytes.len();
        self.bytes.reserve(STEP);
        let got = source.read(&mut self.bytes)?;
        let room = budget.load(Ordering::Relaxed).min(limit - before);
        if self.bytes.len() - before > room {
            self.bytes.truncate(before + room);
            self.truncated = true;
        }
        budget.fetch_sub(self.bytes.len() - before, Ordering::Relaxed);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;
    use std::io::Write;

    #[tokio::test(flavor = "current_thread")]
    async fn beyond_the_limit_it_drains() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut capture = Capture::start(reader, 100_000, Arc::new(AtomicUsize::new(1 << 20))).unwrap();
        let writing = std::thread::spawn(move || File::from(writer).write_all(&vec![b'y'; 300_000]));
        capture.ended().await;
        writing.join().unwrap().unwrap();
        let captured = capture.take();
        assert_eq!((captured.bytes.len(), captured.truncated), (100_000, true));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn two_streams_share_a_budget() {
        let budget = Arc::new(AtomicUsize::new(100));
        let mut kept = 0;
        for _ in 0..2 {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            let mut capture = Capture::start(reader, 80, budget.clone()).unwrap();
            File::from(writer).write_all(&[b'z'; 200]).unwrap();
            capture.ended().await;
            let captured = capture.take();
            assert!(captured.truncated);
            kept += captured.bytes.len();
        }
        assert_eq!(kept, 100);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_there_is_can_be_taken_before_the_end() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut capture = Capture::start(reader, 100, Arc::new(AtomicUsize::new(1 << 20))).unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"so far").unwrap();
        let waited = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(waited, capture.ended()).await.is_err());
        let captured = capture.take();
        assert_eq!((captured.bytes.as_slice(), captured.truncated), (b"so far".as_slice(), false));
    }
}
