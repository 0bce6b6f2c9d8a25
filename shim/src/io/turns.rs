//! Reading and writing on threads: a file system that hangs holds the threads of a few streams and never the event
//! loop, which goes on answering the daemon and reaping.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::buffers::{Buffers, Pool};

/// So many streams of the pod are served at the same time. The other threads are for other work, whatever happens here.
const AT_ONCE: usize = 4;

/// Whose turn it is.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    permits: Arc<Semaphore>,
    pool: Pool,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { permits: Arc::new(Semaphore::new(AT_ONCE)), pool: Pool::default() }
    }
}

impl Turns {
    /// Does one piece of work on a thread, with buffers, when it is its turn. None if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Buffers) -> T + Send + 'static,
    ) -> Option<T> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        let pool = self.pool.clone();
        let thread = tokio::task::spawn_blocking(move || {
            // Held by the work: a caller that goes does not make room for a thread that hangs.
            let _permit = permit;
            pool.with(work)
        });
        thread.await.ok()
    }
}
