//! The one door from async to blocking work (files, mounts, the store, cgroups), with a bound on how much of it runs
//! at a time.

use berth_core::{Classified, ErrorClass};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Pieces of blocking work that may run at one time. The runtime has as many threads for it.
pub const THREADS: usize = 32;

/// Work slower than this is told in the log.
const SLOW: Duration = Duration::from_secs(5);

/// The door. Clones share its bound.
#[derive(Clone, Debug)]
pub struct Blocking {
    permits: Arc<Semaphore>,
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
        Self { permits: Arc::new(Semaphore::new(THREADS)) }
    }
}

impl Blocking {
    /// Runs `work` on a thread of its own and waits for it. Work once begun ends even if nobody waits any more.
    ///
    /// # Errors
    /// It panicked, or the daemon ends.
    pub async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| BlockingError::Closed(what))?;
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

    #[tokio::test]
    async fn a_panic_costs_one_step() {
        let blocking = Blocking::default();
        let lost = blocking.run("boom", || panic!("on purpose")).await;
        assert_eq!(lost, Err::<(), _>(BlockingError::Panicked("boom")));
        assert_eq!(blocking.run("fine", || 1).await, Ok(1));
        assert_eq!(blocking.permits.available_permits(), THREADS);
    }
}
