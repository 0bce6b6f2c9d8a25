//! Buffers for the pod's output, lent to whoever reads now. They are given back to the system after a second without
//! output, so that an idle pod holds none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::Timestamp;

/// One read takes this much at most.
pub(crate) const READ_MAX: usize = 64 << 10;

/// Records are handed to the kernel once they are this much.
pub(crate) const WRITE_AT: usize = 128 << 10;

const IDLE: Duration = Duration::from_secs(1);

/// The buffers of one turn.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// What was read.
    pub(crate) input: Vec<u8>,
    /// Whole records.
    pub(crate) output: Vec<u8>,
}

/// The pod's buffers that are not lent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Free>>);

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Buffers>,
    used: Timestamp,
    watched: bool,
}

impl Pool {
    /// Uses buffers. Must be called within the runtime, or on one of its threads.
    pub(crate) fn with<T>(&self, use_them: impl FnOnce(&mut Buffers) -> T) -> T {
        let mut buffers = self.lend();
        let result = use_them(&mut buffers);
        let mut free = self.lock();
        free.used = Timestamp::now();
        free.buffers.push(buffers);
        if !std::mem::replace(&mut free.watched, true) {
            crate::background::spawn(release_when_idle(self.clone()));
        }
        result
    }

    fn lend(&self) -> Buffers {
        self.lock().buffers.pop().unwrap_or_else(|| Buffers {
            input: Vec::with_capacity(READ_MAX),
            output: Vec::with_capacity(WRITE_AT + READ_MAX),
        })
    }

    fn release_if_idle(&self) -> bool {
        let mut free = self.lock();
        let idle = free.used.age() >= IDLE;
        if idle {
            free.buffers = Vec::new();
            free.watched = false;
        }
        idle
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn release_when_idle(pool: Pool) {
    loop {
        tokio::time::sleep(IDLE).await;
        if pool.release_if_idle() {
            break;
        }
    }
    berth_sys::malloc::trim();
}
