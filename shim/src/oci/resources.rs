//! The flags of `update`, as `linux.resources`.

use std::io::Read;

use berth_core::oci::LinuxResources;
use serde_json::{Map, Value, json};

use super::flags::{Flag, Parsed};
use super::{About, OciError, from_json};

pub(crate) const FLAGS: &[Flag] = &[
    Flag::value("resources", "r"),
    Flag::value("blkio-weight", ""),
    Flag::value("cpu-period", ""),
    Flag::value("cpu-quota", ""),
    Flag::value("cpu-burst", ""),
    Flag::value("cpu-share", ""),
    Flag::value("cpu-shares", ""),
    Flag::value("cpu-rt-period", ""),
    Flag::value("cpu-rt-runtime", ""),
    Flag::value("cpuset-cpus", ""),
    Flag::value("cpuset-mems", ""),
    Flag::value("cpu-idle", ""),
    Flag::value("memory", ""),
    Flag::value("memory-reservation", ""),
    Flag::value("memory-swap", ""),
    Flag::value("pids-limit", ""),
];

/// Flag, controller, key.
const NUMBERS: [(&str, &str, &str); 13] = [
    ("blkio-weight", "blockIO", "weight"),
    ("cpu-period", "cpu", "period"),
    ("cpu-quota", "cpu", "quota"),
    ("cpu-burst", "cpu", "burst"),
    ("cpu-share", "cpu", "shares"),
    ("cpu-shares", "cpu", "shares"),
    ("cpu-rt-period", "cpu", "realtimePeriod"),
    ("cpu-rt-runtime", "cpu", "realtimeRuntime"),
    ("cpu-idle", "cpu", "idle"),
    ("memory", "memory", "limit"),
    ("memory-reservation", "memory", "reservation"),
    ("memory-swap", "memory", "swap"),
    ("pids-limit", "pids", "limit"),
];

/// What the flags, or the file of `--resources` (`-` for standard input), say.
pub(crate) fn from_flags(flags: &Parsed) -> Result<LinuxResources, OciError> {
    let bad = |error| OciError::Json { path: "resources".to_owned(), error };
    if let Some(path) = flags.value("resources") {
        let mut text = Vec::new();
        if path == "-" {
            std::io::stdin().read_to_end(&mut text).about("read", path)?;
        } else {
            text = std::fs::read(path).about("read", path)?;
        }
        return from_json(path, &text);
    }
    let mut out = Map::new();
    for (flag, controller, key) in NUMBERS {
        if let Some(text) = flags.value(flag).filter(|text| !text.is_empty()) {
            set(&mut out, controller, key, json!(amount(flag, text)?));
        }
    }
    for (flag, key) in [("cpuset-cpus", "cpus"), ("cpuset-mems", "mems")] {
        if let Some(text) = flags.value(flag).filter(|text| !text.is_empty()) {
            set(&mut out, "cpu", key, json!(text));
        }
    }
    serde_json::from_value(Value::Object(out)).map_err(bad)
}

fn set(out: &mut Map<String, Value>, controller: &str, key: &str, value: Value) {
    let entry = out.entry(controller).or_insert_with(|| json!({}));
    entry[key] = value;
}

/// A number, for memory also with a unit (k, m, g, t, powers of 1024).
fn amount(flag: &str, text: &str) -> Result<i64, OciError> {
    let bad = || OciError::Usage(format!("--{flag}: {text:?} is no amount"));
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let lower = text.to_ascii_lowercase();
    let lower = lower.trim_end_matches('b').trim_end_matches('i');
    let at = lower.len().checked_sub(1).ok_or_else(bad)?;
    let (digits, unit) = lower.split_at_checked(at).ok_or_else(bad)?;
    let shift = match unit {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(bad()),
    };
    digits.parse::<i64>().ok().and_then(|n| n.checked_mul(1 << shift)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!(amount("memory", "64m").ok(), Some(64 << 20));
        assert_eq!(amount("memory", "1GiB").ok(), Some(1 << 30));
        assert_eq!(amount("memory", "-1").ok(), Some(-1));
        for bad in ["", "m", "x", "9999999999999t"] {
            assert!(amount("memory", bad).is_err(), "{bad}");
        }
    }
}
