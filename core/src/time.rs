//! Times as CRI writes them: nanoseconds since the Unix epoch.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment of the wall clock, in nanoseconds since the Unix epoch. Zero means "has not happened".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// "Has not happened."
    pub const NEVER: Self = Self(0);

    /// The wall clock now.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// The number CRI wants.
    #[must_use]
    pub fn nanos(self) -> i64 {
        self.0
    }

    /// This moment, or one nanosecond after `earlier` if the clock has stepped back: times of one name rise strictly.
    #[must_use]
    pub fn after(self, earlier: Self) -> Self {
        if self > earlier { self } else { Self(earlier.0.saturating_add(1)) }
    }

    /// This moment, but not before `floor`: an end is never before its beginning.
    #[must_use]
    pub fn at_least(self, floor: Self) -> Self {
        self.max(floor)
    }

    /// Time passed since then, zero if the clock stepped back.
    #[must_use]
    pub fn age(self) -> Duration {
        let nanos = Self::now().0.saturating_sub(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, (self.0 % 1_000_000_000).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_rise_even_when_the_clock_steps_back() {
        assert_eq!(Timestamp(5).after(Timestamp(9)), Timestamp(10));
        assert_eq!(Timestamp(9).after(Timestamp(9)), Timestamp(10));
        assert_eq!(Timestamp(11).after(Timestamp(9)), Timestamp(11));
        assert_eq!(Timestamp(5).at_least(Timestamp(9)), Timestamp(9));
    }

    #[test]
    fn before_the_epoch_is_never() {
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)), Timestamp::NEVER);
        assert!(Timestamp::now() > Timestamp(1_600_000_000_000_000_000));
    }
}
