//! The one door from async to blocking work (files, mounts, the store, cgroups), with a bound on how much of it runs
//! at a time.
//!
//! There are several rooms behind it, each with a bound of its own, so that what waits in one (a plugin of sixty
//! seconds, a walk over a million files) does not keep others from theirs.

use crate::probe::{ProbeError, Probes, Wish};
use berth_core::{Classified, ErrorClass};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Pieces of ordinary work that may run at one time.
pub const WORK: usize = 32;
/// Quick looks: records, figures, states.
pub const LOOKS: usize = 8;
/// Walks over trees of files, as long as the trees are.
pub const WALKS: usize = 2;
/// Network plugins that attach a pod.
pub const ATTACHES: usize = 32;
/// Network plugins that detach one: stopping a pod never waits for those that start.
pub const DETACHES: usize = 32;
/// All of them; the runtime needs as many threads, and some for what does not come by this door.
pub const THREADS: usize = WORK + LOOKS + WALKS + ATTACHES + DETACHES;

/// Work slower than this is told in the log.
const SLOW: Duration = Duration::from_secs(5);

/// Which bound a piece of work counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Room {
    /// Work that changes something.
    Work,
    /// A quick look.
    Look,
    /// A walk over a tree of files.
    Walk,
    /// Attaching a pod to its network.
    Attach,
    /// Detaching a pod from its network.
    Detach,
}

/// The door. Clones share its bounds.
#[derive(Clone, Debug)]
pub struct Blocking(Arc<Rooms>);

#[derive(Debug)]
struct Rooms {
    probes: Probes,
    work: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    walks: Arc<Semaphore>,
    attaches: Arc<Semaphore>,
    detaches: Arc<Semaphore>,
}

/// Why a piece of work gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockingError {
    /// It panicked; the rest of the daemon goes on.
    #[error("{0}: a fault in berthd ended this step, the log tells where")]
    Panicked(&'static str),
    /// The daemon ends.
    #[error("{0}: the daemon is shutting down")]
    Closed(&'static str),
}

impl Classified for BlockingError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Panicked(_) => ErrorClass::Internal,
            Self::Closed(_) => ErrorClass::Unavailable,
        }
    }
}

impl Default for Blocking {
    fn default() -> Self {
        let room = |places| Arc::new(Semaphore::new(places));
        Self(Arc::new(Rooms {
            probes: Probes::default(),
            work: room(WORK),
            looks: room(LOOKS),
            walks: room(WALKS),
            attaches: room(ATTACHES),
            detaches: room(DETACHES),
        }))
    }
}

impl Blocking {
    fn room(&self, room: Room) -> &Arc<Semaphore> {
        match room {
            Room::Work => &self.0.work,
            Room::Look => &self.0.looks,
            Room::Walk => &self.0.walks,
            Room::Attach => &self.0.attaches,
            Room::Detach => &self.0.detaches,
        }
    }

    /// Runs ordinary `work` on a thread of its own and waits for it. Work once begun ends even if nobody waits any
    /// more.
    ///
    /// # Errors
    /// It panicked, or the daemon ends.
    pub async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        self.run_in(Room::Work, what, work).await
    }

    /// Looks at a path that a request names, which may never answer: on a thread that counts against no room. Gives
    /// it without symbolic links.
    ///
    /// # Errors
    /// It does not answer in time, or cannot be used.
    pub async fn host_path(&self, path: &Path, wish: Wish) -> Result<PathBuf, ProbeError> {
        self.0.probes.look(path, wish).await
    }

    /// As [`run`](Self::run), against the bound of `room`.
    ///
    /// # Errors
    /// It panicked, or the daemon ends.
    pub async fn run_in<T: Send + 'static>(
        &self,
        room: Room,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let permit =
            self.room(room).clone().acquire_owned().await.map_err(|_| BlockingError::Closed(what))?;
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let _entered = span.entered();
            let begun = Instant::now();
            let done = work();
            if begun.elapsed() > SLOW {
                tracing::warn!(step = what, seconds = begun.elapsed().as_secs(), "a blocking step is slow");
            }
            done
        });
        task.await.map_err(|error| match error.is_panic() {
            true => BlockingError::Panicked(what),
            false => BlockingError::Closed(what),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const ALL: [Room; 5] = [Room::Work, Room::Look, Room::Walk, Room::Attach, Room::Detach];

    #[tokio::test]
    async fn a_panic_costs_one_step() {
        let blocking = Blocking::default();
        let lost = blocking.run("boom", || panic!("on purpose")).await;
        assert_eq!(lost, Err::<(), _>(BlockingError::Panicked("boom")));
        assert_eq!(blocking.run("fine", || 1).await, Ok(1));
        assert_eq!(blocking.0.work.available_permits(), WORK);
    }

    #[test]
    fn the_bounds_add_up() {
        let blocking = Blocking::default();
        let all: usize = ALL.iter().map(|room| blocking.room(*room).available_permits()).sum();
        assert_eq!(all, THREADS, "a room without threads of its own would wait for the others");
    }

    #[tokio::test]
    async fn a_full_room_does_not_hold_up_the_others() {
        let blocking = Blocking::default();
        for full in ALL {
            let (end, wait) = mpsc::channel::<()>();
            let wait = Arc::new(std::sync::Mutex::new(wait));
            let places = blocking.room(full).available_permits();
            let held: Vec<_> = (0..places)
                .map(|_| {
                    let (blocking, wait) = (blocking.clone(), Arc::clone(&wait));
                    let hang = move || {
                        let _ended = wait.lock().map(|wait| wait.recv());
                    };
                    tokio::spawn(async move { blocking.run_in(full, "hang", hang).await })
                })
                .collect();
            while blocking.room(full).available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            for other in ALL.iter().filter(|other| **other != full) {
                assert_eq!(blocking.run_in(*other, "work", || 1).await, Ok(1), "{full:?} holds up {other:?}");
            }
            drop(end);
            for task in held {
                assert_eq!(task.await.unwrap(), Ok(()));
            }
        }
    }
}
