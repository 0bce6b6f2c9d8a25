//! Arithmetic between the two generations of control groups.

use super::invalid;
use crate::error::Result;

/// v1 `cpu.shares` (2 to 262144, 1024 the default) as v2 `cpu.weight` (1 to 10000, 100 the default).
///
/// The curve is quadratic in the logarithm, so that minimum, default and maximum of one scale meet those of the other.
/// The kubelet uses the same one: were they to differ, a container's weight would not fit its pod's.
pub fn shares_to_weight(shares: u64) -> u64 {
    if shares <= 2 {
        return 1;
    }
    if shares >= 262_144 {
        return 10_000;
    }
    let log = log2(shares);
    let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
    let weight = power_of_ten(exponent);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 10000")]
    let whole = weight as u64;
    #[expect(clippy::cast_precision_loss, reason = "at most 10000")]
    let cut = weight > whole as f64;
    whole + u64::from(cut)
}

/// The binary logarithm of a number from 2 to 2^18. These two by hand, because every start of the runtime would load
/// the library of mathematics for them: a tenth of a millisecond, and a tenth of a megabyte.
fn log2(number: u64) -> f64 {
    let whole = number.ilog2();
    #[expect(clippy::cast_precision_loss, reason = "below 2^18")]
    let rest = number as f64 / (1u64 << whole) as f64;
    // ln x = 2 (y + y^3/3 + y^5/5 + ...) with y = (x - 1) / (x + 1), which is a third at most.
    let y = (rest - 1.0) / (rest + 1.0);
    let series = (0..20).rev().fold(0.0, |sum, k| sum * y * y + 1.0 / f64::from(2 * k + 1));
    f64::from(whole) + 2.0 * y * series / std::f64::consts::LN_2
}

/// Ten to the power of a number from 0 to 4.
fn power_of_ten(exponent: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "from 0 to 4")]
    let whole = exponent as i32;
    let x = (exponent - f64::from(whole)) * std::f64::consts::LN_10;
    // e^x = 1 + x (1 + x/2 (1 + x/3 (...))), with x at most 2.31.
    let rest = (1..40).rev().fold(1.0, |sum, k| 1.0 + sum * x / f64::from(k));
    (0..whole).fold(rest, |power, _| power * 10.0)
}

/// v1 `blkio.weight` (10 to 1000) as v2 `io.weight` (1 to 10000).
pub fn blkio_to_io_weight(weight: u16) -> u64 {
    1 + (u64::from(weight).clamp(10, 1000) - 10) * 9999 / 990
}

/// The specification's limit on memory and swap together as v2's limit on swap alone. None: leave it as it is.
///
/// `-1` is "no limit"; a missing swap limit follows a memory limit of `-1`.
pub fn swap_max(memory: Option<i64>, swap: Option<i64>) -> Result<Option<i64>> {
    match (memory.unwrap_or(0), swap.unwrap_or(0)) {
        (-1, 0) | (_, -1) => Ok(Some(-1)),
        (_, 0) => Ok(None),
        (0 | -1, _) => Err(invalid("memory.swap", "a swap limit needs a memory limit")),
        (memory, swap) if memory < -1 || swap < -1 => Err(invalid("memory", "a limit is negative")),
        (memory, swap) if swap < memory => Err(invalid(
            "memory.swap",
            format!("{swap} is less than the memory limit {memory}: it counts both"),
        )),
        (memory, swap) => Ok(Some(swap - memory)),
    }
}

/// A v2 limit: `max` for -1.
pub(super) fn max_or(value: i64) -> String {
    if value < 0 { "max".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_meet_the_known_points() {
        for (shares, weight) in [
            (0, 1),
            (2, 1),
            (3, 2),
            (10, 4),
            (102, 17),
            (512, 59),
            (1024, 100),
            (2048, 174),
            (4096, 303),
            (262_143, 10_000),
            (262_144, 10_000),
            (1 << 40, 10_000),
        ] {
            assert_eq!(shares_to_weight(shares), weight, "{shares}");
        }
        let weights: Vec<u64> = (2..=262_144).step_by(7).map(shares_to_weight).collect();
        assert!(weights.is_sorted());
    }

    #[test]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small"
    )]
    fn shares_become_what_the_library_makes_of_them() {
        for shares in 3..262_144u64 {
            let log = (shares as f64).log2();
            let weight = 10f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil() as u64;
            assert_eq!(shares_to_weight(shares), weight, "{shares}");
        }
    }

    #[test]
    fn swap_arithmetic() {
        let max = |memory, swap| swap_max(Some(memory), Some(swap)).unwrap();
        assert_eq!(max(100, 100), Some(0), "equal limits mean no swap");
        assert_eq!(max(100, 150), Some(50));
        assert_eq!(max(100, -1), Some(-1));
        assert_eq!(max(-1, 0), Some(-1));
        assert_eq!(max(100, 0), None);
        assert_eq!(swap_max(None, None).unwrap(), None);
        assert!(swap_max(None, Some(5)).is_err());
        assert!(swap_max(Some(-1), Some(5)).is_err());
        assert!(swap_max(Some(100), Some(99)).is_err());
    }

    #[test]
    fn io_weights_meet_their_ends() {
        assert_eq!(blkio_to_io_weight(10), 1);
        assert_eq!(blkio_to_io_weight(1000), 10_000);
    }
}
