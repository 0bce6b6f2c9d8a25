//! Chance from a seed: the same seed gives the same numbers everywhere.

use std::ops::Range;

/// A stream of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of this run: `BERTH_E2E_SEED`, or the counter kept in the tree moved on by each commit, so that runs
    /// add up instead of repeating each other.
    pub fn seed(counter: &str) -> u64 {
        let wish = std::env::var("BERTH_E2E_SEED").ok().and_then(|text| text.parse().ok());
        wish.unwrap_or_else(|| {
            let base: u64 = counter.trim().parse().unwrap_or(0);
            base * 1_000_000 + crate::faults::turn(1_000_000) as u64
        })
    }

    /// Another stream that depends on this one's seed only.
    pub fn branch(&mut self) -> Self {
        Self(self.next())
    }

    /// A number in a range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.next() % width
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.within(0..100) < share
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn one_seed_is_one_stream_within_its_bounds() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..100).map(|_| chance.within(5..9)).collect::<Vec<u64>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|number| (5..9).contains(number)));
    }
}
