//! How many calls of a kind may run at one time; the others wait their turn, in order.
//!
//! Calls that end something (stop, remove) and probes are never held up: they are what frees a busy node.

use crate::cri::Cost;
use berth_config::Grpc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The gates.
#[derive(Debug)]
pub struct Admission {
    expensive: Semaphore,
    pulls: Semaphore,
    cheap: Semaphore,
}

impl Admission {
    /// Gates as wide as the configuration says.
    #[must_use]
    pub fn new(config: &Grpc) -> Self {
        Self {
            expensive: Semaphore::new(config.max_expensive),
            pulls: Semaphore::new(config.max_expensive),
            cheap: Semaphore::new(config.max_cheap),
        }
    }

    /// Waits for a place. Dropping the permit gives it back.
    pub async fn enter(&self, cost: Cost) -> Option<SemaphorePermit<'_>> {
        let gate = match cost {
            Cost::Free | Cost::Quiet => return None,
            Cost::Cheap => &self.cheap,
            Cost::Pull => &self.pulls,
            Cost::Expensive => &self.expensive,
        };
        // Never closed, so this cannot fail.
        gate.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn gates_do_not_hold_each_other_up() {
        let gates = Admission::new(&Grpc { max_expensive: 1, max_cheap: 1, ..Grpc::default() });
        let first = gates.enter(Cost::Expensive).await;
        assert!(gates.enter(Cost::Expensive).now_or_never().is_none(), "the second waits");
        assert!(gates.enter(Cost::Cheap).now_or_never().is_some());
        assert!(gates.enter(Cost::Pull).now_or_never().is_some());
        assert!(gates.enter(Cost::Free).now_or_never().is_some());
        drop(first);
        assert!(gates.enter(Cost::Expensive).now_or_never().is_some(), "a place is free again");
    }
}
