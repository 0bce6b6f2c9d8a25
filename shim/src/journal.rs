//! What happened and has not been acknowledged: exits and OOM kills. Recorded before anybody is told; shown again
//! to whoever asks until it is acknowledged, however often the daemon restarts.
//!
//! The file is a copy for the case that this process dies too: the daemon can then still read the last exits.
//! It lives on a tmpfs and is never synced.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::Timestamp;
use berth_core::exit::Exit;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The journal's name in the state directory.
pub(crate) const FILE_NAME: &str = "journal";

/// One answer carries no more; the rest comes with the next.
const ANSWER_MAX: usize = 1000;

/// The file is written anew when it has grown beyond what is owed.
const FILE_MAX: u64 = 1 << 20;

/// Stands for the newest event when no more will come.
const CLOSED: u64 = u64::MAX;

/// One event: a line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Strictly rising, from 1.
    pub(crate) seq: u64,
    /// The container.
    pub(crate) id: String,
    /// When it happened.
    pub(crate) at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub(crate) fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fact {
    /// The container ended.
    Exit(Exit),
    /// The kernel has killed so many processes of it for lack of memory.
    Oom(u64),
}

/// The events of this shim that nobody has acknowledged.
#[derive(Debug)]
pub(crate) struct Journal {
    pending: Mutex<Pending>,
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Pending {
    next: u64,
    entries: VecDeque<Entry>,
    file: File,
    written: u64,
}

impl Journal {
    /// Begins a journal in `directory`; one left by an earlier shim is dropped.
    pub(crate) fn create(directory: &Path) -> io::Result<Journal> {
        let file =
            OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join(FILE_NAME))?;
        file.set_len(0)?;
        let pending = Mutex::new(Pending { next: 1, entries: VecDeque::new(), file, written: 0 });
        Ok(Journal { pending, newest: watch::Sender::new(0) })
    }

    /// Records one event, then wakes whoever waits.
    pub(crate) fn record(&self, id: &str, at: Timestamp, fact: Fact) {
        let mut pending = self.lock();
        if matches!(fact, Fact::Oom(_)) {
            // The newest count says all that the older ones said: a container cannot fill the journal.
            pending.entries.retain(|entry| entry.id != id || !matches!(entry.fact, Fact::Oom(_)));
        }
        let entry = Entry { seq: pending.next, id: id.to_owned(), at, fact };
        if let Err(error) = pending.append(&entry) {
            crate::say!("journal: {error}; the event is kept in memory only");
        }
        pending.next += 1;
        let newest = entry.seq;
        pending.entries.push_back(entry);
        drop(pending);
        self.newest.send_replace(newest);
    }

    /// Forgets everything up to `acked`, then gives what lies beyond, waiting up to `wait` for the first.
    pub(crate) async fn beyond(&self, acked: u64, wait: Duration) -> Vec<Entry> {
        self.acknowledge(acked);
        let mut newest = self.newest.subscribe();
        // What was acknowledged by an earlier caller is no news, whatever this one says.
        let news = async {
            while !self.has_beyond(acked) && *newest.borrow_and_update() != CLOSED {
                if newest.changed().await.is_err() {
                    return;
                }
            }
        };
        let _timed_out = tokio::time::timeout(wait, news).await;
        self.lock().entries.iter().filter(|entry| entry.seq > acked).take(ANSWER_MAX).cloned().collect()
    }

    /// Makes every waiter answer now: the shim is ending.
    pub(crate) fn close(&self) {
        self.newest.send_replace(CLOSED);
    }

    fn has_beyond(&self, acked: u64) -> bool {
        self.lock().entries.iter().any(|entry| entry.seq > acked)
    }

    fn acknowledge(&self, acked: u64) {
        let mut pending = self.lock();
        let before = pending.entries.len();
        pending.entries.retain(|entry| entry.seq > acked);
        if pending.entries.is_empty() && before > 0 {
            pending.entries.shrink_to_fit();
            pending.written = 0;
            if let Err(error) = pending.file.set_len(0) {
                crate::say!("journal: {error}");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn append(&mut self, entry: &Entry) -> io::Result<()> {
        if self.written > FILE_MAX {
            self.file.set_len(0)?;
            self.written = 0;
            for owed in &self.entries {
                self.written += write_line(&mut self.file, owed)?;
            }
        }
        self.written += write_line(&mut self.file, entry)?;
        Ok(())
    }
}

fn write_line(file: &mut File, entry: &Entry) -> io::Result<u64> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(line.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn exit(code: u8) -> Fact {
        Fact::Exit(Exit::ended(code, Timestamp(code.into()), 0))
    }

    fn lines(directory: &Path) -> Vec<Entry> {
        let text = std::fs::read_to_string(directory.join(FILE_NAME)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn shown_again_until_acknowledged() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::create(directory.path()).unwrap();
        journal.record("a", Timestamp(5), Fact::Oom(1));
        journal.record("a", Timestamp(6), exit(137));
        let seen = journal.beyond(0, NONE).await;
        assert_eq!(seen.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(journal.beyond(0, NONE).await, seen, "a second daemon sees the same");
        assert_eq!(lines(directory.path()), seen, "recorded in the file too");
        assert_eq!(journal.beyond(1, NONE).await, seen[1..]);
        assert!(journal.beyond(2, NONE).await.is_empty());
        assert!(lines(directory.path()).is_empty(), "nothing owed: nothing kept");
        journal.record("b", Timestamp(7), exit(0));
        assert_eq!(lines(directory.path())[0].seq, 3, "numbers rise for ever");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_waiter_is_woken_by_news_only() {
        let directory = tempfile::tempdir().unwrap();
        let journal = std::sync::Arc::new(Journal::create(directory.path()).unwrap());
        journal.record("a", Timestamp(1), exit(1));
        let waiter = tokio::spawn({
            let journal = journal.clone();
            async move { journal.beyond(1, Duration::from_secs(60)).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiter.is_finished());
        journal.record("a", Timestamp(2), Fact::Oom(2));
        assert_eq!(waiter.await.unwrap()[0].seq, 2);
        journal.acknowledge(2);
        let begun = std::time::Instant::now();
        assert!(journal.beyond(0, Duration::from_millis(50)).await.is_empty());
        assert!(
            begun.elapsed() >= Duration::from_millis(50),
            "a caller that forgot the number does not spin"
        );
        let ending = tokio::spawn({
            let journal = journal.clone();
            async move { journal.beyond(9, Duration::from_secs(60)).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        journal.close();
        assert!(ending.await.unwrap().is_empty());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_container_cannot_fill_the_journal() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::create(directory.path()).unwrap();
        journal.record("other", Timestamp(1), Fact::Oom(1));
        for kills in 0..20_000 {
            journal.record("hungry", Timestamp(2), Fact::Oom(kills));
        }
        journal.record("hungry", Timestamp(3), exit(137));
        let facts: Vec<Fact> = journal.beyond(0, NONE).await.into_iter().map(|entry| entry.fact).collect();
        assert_eq!(facts, [Fact::Oom(1), Fact::Oom(19_999), exit(137)]);
        assert!(std::fs::metadata(directory.path().join(FILE_NAME)).unwrap().len() <= 2 * FILE_MAX);
        for n in 0..1500 {
            journal.record(&n.to_string(), Timestamp(4), exit(0));
        }
        let first = journal.beyond(0, NONE).await;
        let last = first.last().unwrap().seq;
        assert_eq!(first.len(), ANSWER_MAX);
        assert_eq!(journal.beyond(last, NONE).await.len(), 503);
    }
}
