//! Times of creation: strictly rising per name, also when the node's clock steps back.

use berth_core::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Beyond this many names, those are forgotten that the clock has passed anyway.
const PRUNE_AT: usize = 256;

/// Gives creation times.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<HashMap<String, Timestamp>>);

impl Clock {
    /// A time for a new object of this name: now, or just after its last one.
    pub(crate) fn stamp(&self, name: String) -> Timestamp {
        let now = Timestamp::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= PRUNE_AT {
            last.retain(|_, time| *time >= now);
        }
        let time = now.after(last.get(&name).copied().unwrap_or_default());
        last.insert(name, time);
        time
    }

    /// Learns a time given by an earlier daemon.
    pub(crate) fn learn(&self, name: String, time: Timestamp) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.entry(name).or_default();
        *known = (*known).max(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_name_rise_even_from_the_future() {
        let clock = Clock::default();
        let future = Timestamp(i64::MAX / 2);
        clock.learn("a".to_owned(), future);
        let (first, second) = (clock.stamp("a".to_owned()), clock.stamp("a".to_owned()));
        assert!(first > future && second > first);
        assert!(clock.stamp("b".to_owned()) < future);
    }
}
