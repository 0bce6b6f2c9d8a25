//! Threads of the pulls' own for everything that blocks: a slow disk under a pull takes none from the rest of the
//! daemon, and pulls cannot lock each other out, since nothing that runs here waits for something that must run here.

use crate::pull::ErrorKind;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Steps at one time.
const STEPS: usize = 8;
/// Stack of a thread. Nothing here recurses.
const STACK: usize = 512 << 10;

/// Runs blocking steps. Clones share the bound.
#[derive(Debug, Clone)]
pub(crate) struct Threads(Arc<Semaphore>);

impl Default for Threads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STEPS)))
    }
}

impl Threads {
    /// Runs `work` and waits for it. Once begun it ends even if nobody waits any more; what it gives is then dropped in
    /// its thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ErrorKind> + Send + 'static,
    ) -> Result<T, ErrorKind> {
        let internal = |error: &dyn std::fmt::Display| ErrorKind::Internal(error.to_string());
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(|error| internal(&error))?;
        let (tell, told) = tokio::sync::oneshot::channel();
        let runtime = Handle::current();
        spawn("berth-pull", move || {
            let _permit = permit;
            let _entered = runtime.enter();
            let _ = tell.send(work());
        })
        .map_err(|error| internal(&format_args!("start a thread: {error}")))?;
        told.await.unwrap_or_else(|_| {
            Err(ErrorKind::Internal("a fault in berthd ended a step of the pull, the log tells where".into()))
        })
    }

    /// Drops `value` in a thread, because that takes time: a tree is removed with it.
    pub(crate) fn discard<T: Send + 'static>(value: T) {
        // Without a thread the closure, and the value with it, is dropped right here.
        let _ = spawn("berth-discard", move || drop(value));
    }
}

/// A thread with a small stack.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_costs_one_step_and_no_permit() {
        let threads = Threads::default();
        for _ in 0..2 * STEPS {
            assert!(threads.run::<()>(|| panic!("on purpose")).await.is_err());
        }
        assert_eq!(threads.run(|| Ok(1)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn more_steps_than_threads_wait_their_turn() {
        let threads = Threads::default();
        let now = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let all = (0..4 * STEPS).map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            threads.run(move || {
                let running = now.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                most.fetch_max(running, std::sync::atomic::Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(10));
                now.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                Ok(())
            })
        });
        for done in futures_util::future::join_all(all).await {
            done.unwrap();
        }
        assert!(most.load(std::sync::atomic::Ordering::SeqCst) <= STEPS);
    }
}
