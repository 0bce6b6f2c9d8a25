//! Earlier readings: for rates, and for what is expensive to measure.

use super::Writable;
use crate::figure::Figure;
use berth_core::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate over less than this says more about the clock than about the container.
const RATE_OVER: Duration = Duration::from_millis(900);
/// Entries nobody asked for this long are forgotten.
const FORGET: Duration = Duration::from_secs(600);

/// Earlier readings by cgroup and by container.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    rates: Mutex<HashMap<String, Sample>>,
    layers: Mutex<HashMap<String, (Instant, Figure<Writable>)>>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    usage_ns: u64,
    rate: Option<u64>,
}

impl Cache {
    /// Takes a reading of a cgroup and gives the rate since an earlier one. A counter that went back begins anew.
    pub(super) fn rate(&self, cgroup: &str, usage_ns: u64) -> Option<u64> {
        let now = Instant::now();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.retain(|_, sample| now.duration_since(sample.at) < FORGET);
        let first = Sample { at: now, usage_ns, rate: None };
        let Some(before) = rates.get(cgroup).copied().filter(|sample| sample.usage_ns <= usage_ns) else {
            rates.insert(cgroup.to_owned(), first);
            return None;
        };
        let passed = now.duration_since(before.at);
        if passed < RATE_OVER {
            return before.rate;
        }
        let grown = u128::from(usage_ns - before.usage_ns) * 1_000_000_000 / passed.as_nanos();
        let rate = u64::try_from(grown).ok();
        rates.insert(cgroup.to_owned(), Sample { rate, ..first });
        rate
    }

    /// A container's writable layer.
    pub(super) fn layer(&self, id: &str) -> Figure<Writable> {
        let now = Instant::now();
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        layers.retain(|_, (asked, _)| now.duration_since(*asked) < FORGET);
        let (asked, figure) = layers.entry(id.to_owned()).or_insert_with(|| (now, Figure::default()));
        *asked = now;
        figure.clone()
    }
}

/// A measurement with its time.
pub(super) fn writable(usage: &berth_snapshot::Usage, directory: std::path::PathBuf) -> Writable {
    Writable { at: Timestamp::now(), directory, bytes: usage.bytes, inodes: usage.inodes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_before_two_readings_and_none_after_a_counter_went_back() {
        let cache = Cache::default();
        assert_eq!(cache.rate("a", 1_000), None);
        assert_eq!(cache.rate("a", 2_000), None, "too soon after the first");
        std::thread::sleep(RATE_OVER);
        let rate = cache.rate("a", 500_001_000).unwrap();
        assert!((200_000_000..600_000_000).contains(&rate), "{rate}");
        assert_eq!(cache.rate("a", 500_001_001), Some(rate), "too soon: the last rate holds");
        assert_eq!(cache.rate("a", 5), None);
    }
}
