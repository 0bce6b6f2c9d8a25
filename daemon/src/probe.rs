//! Looks at paths of the host that may never answer: the mounts, devices and files that requests name.
//!
//! Whoever touches a dead network file system sleeps in the kernel until its server is back, and no signal wakes him.
//! So a look has a thread of its own, outside every pool. Whoever asks for a path that is being looked at joins that
//! look and gets its deadline, so a path costs one thread however often it is asked for; and all paths together cost
//! no more than [`MOST`].

use berth_core::{Classified, ErrorClass};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long one path may take.
pub const WITHIN: Duration = Duration::from_secs(20);
/// Looks at one time; a look that hangs counts as long as it hangs.
pub const MOST: usize = 256;
/// A look that is late already may still have ended just now.
const LATE_GRACE: Duration = Duration::from_millis(200);
/// Stack of a thread that only makes a few system calls.
const STACK: usize = 128 << 10;

/// What to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Only look.
    Look,
    /// Make it a directory if nothing is there.
    MakeDirectory,
}

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// Its file system does not answer.
    #[error("host path {path:?}: no answer within {} s; its file system does not answer", .within.as_secs())]
    Silent {
        /// The path.
        path: PathBuf,
        /// How long it was waited for.
        within: Duration,
    },
    /// Too many looks hang.
    #[error("host path {path:?}: {MOST} other paths do not answer; see to the mounts of this node")]
    Many {
        /// The path.
        path: PathBuf,
    },
    /// The kernel says no.
    #[error("{act} host path {path:?}: {cause}")]
    Failed {
        /// The system call.
        act: &'static str,
        /// The path.
        path: PathBuf,
        /// Its error.
        cause: String,
    },
}

impl Classified for ProbeError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Silent { .. } => ErrorClass::DeadlineExceeded,
            Self::Many { .. } => ErrorClass::ResourceExhausted,
            Self::Failed { .. } => ErrorClass::Internal,
        }
    }
}

/// The path without symbolic links, or why not.
type Answer = Result<PathBuf, ProbeError>;
type Key = (PathBuf, Wish);

#[derive(Debug, Clone)]
struct Look {
    since: Instant,
    answer: watch::Receiver<Option<Answer>>,
}

/// The looks under way. Clones share them.
#[derive(Debug, Clone)]
pub struct Probes {
    looks: Arc<Mutex<HashMap<Key, Look>>>,
    within: Duration,
    act: fn(&Path, Wish) -> Answer,
}

impl Default for Probes {
    fn default() -> Self {
        Self { looks: Arc::default(), within: WITHIN, act: look }
    }
}

impl Probes {
    /// Looks at `path`, and gives it without symbolic links.
    ///
    /// # Errors
    /// It does not answer, or the kernel refuses.
    pub async fn look(&self, path: &Path, wish: Wish) -> Result<PathBuf, ProbeError> {
        let Look { since, mut answer } = self.join(path, wish)?;
        let left = self.within.saturating_sub(since.elapsed()).max(LATE_GRACE);
        let silent = || ProbeError::Silent { path: path.to_owned(), within: self.within };
        match tokio::time::timeout(left, answer.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone().unwrap_or_else(|| Err(silent())),
            Ok(Err(_)) => {
                Err(failed("look at", path, "the thread that looked at it ended without an answer"))
            }
            Err(_) => Err(silent()),
        }
    }

    /// The look at `path` that is under way, or a new one.
    fn join(&self, path: &Path, wish: Wish) -> Result<Look, ProbeError> {
        let key: Key = (path.to_owned(), wish);
        let mut looks = lock(&self.looks);
        if let Some(under_way) = looks.get(&key) {
            return Ok(under_way.clone());
        }
        if looks.len() >= MOST {
            return Err(ProbeError::Many { path: path.to_owned() });
        }
        let (tell, answer) = watch::channel(None);
        let new = Look { since: Instant::now(), answer };
        let (all, act, own) = (Arc::clone(&self.looks), self.act, key.clone());
        let work = move || {
            let end = End { looks: all, key: own };
            let found = act(&end.key.0, wish);
            // Forgotten first: whoever comes from now on looks anew.
            drop(end);
            tell.send_replace(Some(found));
        };
        let thread = std::thread::Builder::new().name("berthd-probe".to_owned()).stack_size(STACK);
        thread.spawn(work).map_err(|error| failed("start a thread for", path, error))?;
        looks.insert(key, new.clone());
        Ok(new)
    }
}

/// Forgets a look when it ends, however it ends.
struct End {
    looks: Arc<Mutex<HashMap<Key, Look>>>,
    key: Key,
}

impl Drop for End {
    fn drop(&mut self) {
        lock(&self.looks).remove(&self.key);
    }
}

fn lock(looks: &Mutex<HashMap<Key, Look>>) -> MutexGuard<'_, HashMap<Key, Look>> {
    looks.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(act: &'static str, path: &Path, cause: impl ToString) -> ProbeError {
    ProbeError::Failed { act, path: path.to_owned(), cause: cause.to_string() }
}

fn look(path: &Path, wish: Wish) -> Answer {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && wish == Wish::MakeDirectory => {
            std::fs::create_dir_all(path).map_err(|error| failed("make", path, error))?;
        }
        Err(error) => return Err(failed("look at", path, error)),
        Ok(_) => {}
    }
    std::fs::canonicalize(path).map_err(|error| failed("resolve", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Waits for its gate, a fifo: a look that hangs as long as the test likes.
    fn hang(path: &Path, _: Wish) -> Answer {
        STARTED.fetch_add(1, SeqCst);
        let gate = path.parent().unwrap_or(path).join("gate");
        std::fs::read(gate).map_err(|error| failed("read", path, error))?;
        Ok(path.to_owned())
    }
    static STARTED: AtomicUsize = AtomicUsize::new(0);

    #[tokio::test]
    async fn a_path_that_hangs_costs_one_thread_and_answers_at_once_when_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let gate = dir.path().join("gate");
        rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let probes = Probes { within: Duration::from_millis(600), act: hang, ..Probes::default() };
        let path = dir.path().join("dead");
        let silent = ProbeError::Silent { path: path.clone(), within: probes.within };
        let asked = Instant::now();
        assert_eq!(probes.look(&path, Wish::Look).await, Err(silent.clone()));
        assert!(asked.elapsed() >= probes.within);
        let again = Instant::now();
        for _ in 0..5 {
            assert_eq!(probes.look(&path, Wish::Look).await, Err(silent.clone()));
        }
        assert!(again.elapsed() < Duration::from_millis(2_500), "each try waits its full time anew");
        assert_eq!(STARTED.load(SeqCst), 1, "every try took a thread");
        // Another path is not kept waiting by it.
        let plain = Probes { looks: Arc::clone(&probes.looks), ..Probes::default() };
        assert_eq!(plain.look(Path::new("/"), Wish::Look).await, Ok(PathBuf::from("/")));
        std::fs::write(&gate, "").unwrap();
        while !lock(&probes.looks).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn there_is_a_bound() {
        let probes = Probes::default();
        let (_tell, answer) = watch::channel(None);
        for number in 0..MOST {
            let look = Look { since: Instant::now(), answer: answer.clone() };
            lock(&probes.looks).insert((number.to_string().into(), Wish::Look), look);
        }
        let path = PathBuf::from("/");
        assert_eq!(probes.look(&path, Wish::Look).await, Err(ProbeError::Many { path: path.clone() }));
    }

    #[tokio::test]
    async fn a_missing_path_is_made_if_wished_and_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let probes = Probes::default();
        let (made, link) = (dir.path().join("a/b"), dir.path().join("link"));
        std::os::unix::fs::symlink("a", &link).unwrap();
        let missing = probes.look(&made, Wish::Look).await.unwrap_err();
        assert!(missing.to_string().contains("a/b"), "{missing}");
        probes.look(&made, Wish::MakeDirectory).await.unwrap();
        assert!(made.is_dir());
        let found = probes.look(&link.join("b"), Wish::Look).await.unwrap();
        assert_eq!(found, made.canonicalize().unwrap());
        assert!(lock(&probes.looks).is_empty());
    }
}
