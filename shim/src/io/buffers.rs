//! One pair of buffers for all output of the pod: there is one thread, and none is in use while it waits.
//! They are given back to the system after a second without output, so that an idle pod holds none.

use std::sync::{Arc, Mutex, PoisonError};
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

/// The pod's buffers, there or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Option<Lent>>>);

#[derive(Debug)]
struct Lent {
    buffers: Buffers,
    used: Timestamp,
}

impl Pool {
    /// Uses the buffers. Must be called within the runtime.
    pub(crate) fn with<T>(&self, use_them: impl FnOnce(&mut Buffers) -> T) -> T {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = place.get_or_insert_with(|| {
            tokio::spawn(release_when_idle(self.clone()));
            Lent { buffers: Buffers::new(), used: Timestamp::NEVER }
        });
        lent.used = Timestamp::now();
        use_them(&mut lent.buffers)
    }

    fn release_if_idle(&self) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = place.as_ref().is_none_or(|lent| lent.used.age() >= IDLE);
        if idle {
            *place = None;
        }
        idle
    }
}

impl Buffers {
    fn new() -> Buffers {
        Buffers { input: Vec::with_capacity(READ_MAX), output: Vec::with_capacity(WRITE_AT + READ_MAX) }
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
