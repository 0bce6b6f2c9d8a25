//! Resources as properties of a unit, so that what systemd writes on a reload is what the files say.

use super::wire::Value;
use crate::error::{CgroupError, Result};
use crate::hierarchy::Mode;
use crate::limits::{Step, Undo};
use crate::path::CgroupPath;

/// A property's name and value.
pub(super) type Property = (&'static str, Value);

/// What a file of the group says, if it can be told.
pub(crate) type Now<'a> = &'a dyn Fn(&str) -> Option<String>;

/// systemd's "no limit".
const INFINITY: u64 = u64::MAX;
/// From here on a v1 memory file means "no limit": the largest number of whole pages.
const ENDLESS: u64 = 0x7fff_ffff_ffff_0000;
const DEFAULT_PERIOD: u64 = 100_000;
/// What `CPUWeight=idle` is on the wire.
const IDLE: u64 = 0;
/// Most processors of a mask; a bound against nonsense.
const MOST_CPUS: usize = 8192;

/// What systemd of a release would refuse, and without what a reload undoes the file: the first release that takes it.
pub(super) fn since((name, value): &Property) -> u32 {
    match (*name, value) {
        ("OOMPolicy", _) => 253,
        ("CPUWeight", Value::Number(IDLE)) => 252,
        _ => 0,
    }
}

/// What every scope of ours has.
pub(super) fn of_scope(path: &CgroupPath, mode: Mode) -> Vec<Property> {
    let CgroupPath::Systemd { slice, name, .. } = path else { return Vec::new() };
    let io = if mode == Mode::V2 { "IOAccounting" } else { "BlockIOAccounting" };
    vec![
        ("Description", Value::Text(format!("berth container {name}"))),
        ("Slice", Value::Text(slice.clone())),
        ("Delegate", Value::Flag(true)),
        // Gone from memory as soon as it ends, also after a failure: a leftover would block the name.
        ("CollectMode", Value::Text("inactive-or-failed".to_owned())),
        ("DefaultDependencies", Value::Flag(false)),
        ("CPUAccounting", Value::Flag(true)),
        ("MemoryAccounting", Value::Flag(true)),
        ("TasksAccounting", Value::Flag(true)),
        (io, Value::Flag(true)),
    ]
}

/// The limits, as far as systemd knows them, from the writes that carry them out.
///
/// `now` is what a file says: after an update the files are asked, since a setting that the update does not name (the
/// period beside a quota, the weight of a group that is idle no more) is part of the property as well. A group that is
/// still to be made says nothing, and its writes are all there is.
pub(super) fn of_steps(steps: &[Step], mode: Mode, now: Now<'_>) -> Result<Vec<Property>> {
    let mut list: Vec<Property> = Vec::new();
    let told = |file: &str| now(file).or_else(|| written(steps, file));
    for write in steps.iter().flat_map(|step| &step.0) {
        // A line for one device has no property.
        if matches!(write.undo, Undo::Line { .. }) {
            continue;
        }
        for property in of_file(&write.file, mode, &told)? {
            // Of two words on one setting the later one holds, as in the files.
            list.retain(|(name, _)| *name != property.0);
            list.push(property);
        }
    }
    Ok(list)
}

/// What the last of the writes to a file says.
fn written(steps: &[Step], file: &str) -> Option<String> {
    let mut writes = steps.iter().rev().flat_map(|step| step.0.iter().rev());
    writes.find(|write| write.file == file).map(|write| write.value.trim().to_owned())
}

/// The properties behind one file, which systemd would else overwrite with an idea of its own.
fn of_file(file: &str, mode: Mode, told: Now<'_>) -> Result<Vec<Property>> {
    let Some(value) = told(file) else { return Ok(Vec::new()) };
    let value = value.trim();
    let one = match (mode, file) {
        (_, "pids.max") => ("TasksMax", number(value).map(at_least_one)),
        (Mode::V2, "memory.min") => ("MemoryMin", number(value)),
        (Mode::V2, "memory.low") => ("MemoryLow", number(value)),
        (Mode::V2, "memory.high") => ("MemoryHigh", number(value).map(at_least_one)),
        (Mode::V2, "memory.max") => ("MemoryMax", number(value).map(at_least_one)),
        (Mode::V2, "memory.swap.max") => ("MemorySwapMax", number(value)),
        (Mode::V2, "memory.oom.group") => {
            ("OOMPolicy", (value == "1").then(|| Value::Text("kill".to_owned())))
        }
        (Mode::V2, "cpu.weight" | "cpu.idle") => ("CPUWeight", weight(told)),
        (Mode::V2, "cpuset.cpus") => ("AllowedCPUs", Some(Value::Bytes(processors(file, value)?))),
        (Mode::V2, "cpuset.mems") => ("AllowedMemoryNodes", Some(Value::Bytes(processors(file, value)?))),
        (Mode::V2, "io.weight") => {
            ("IOWeight", number(value.strip_prefix("default").unwrap_or(value).trim_start()))
        }
        (Mode::V2, "cpu.max") => return Ok(bandwidth(value).unwrap_or_default()),
        (Mode::V1 | Mode::Hybrid, "memory.limit_in_bytes") => {
            ("MemoryLimit", number(value).map(at_least_one))
        }
        (Mode::V1 | Mode::Hybrid, "cpu.shares") => ("CPUShares", number(value).map(within_shares)),
        (Mode::V1 | Mode::Hybrid, "blkio.weight") => ("BlockIOWeight", number(value)),
        (Mode::V1 | Mode::Hybrid, "cpu.cfs_quota_us" | "cpu.cfs_period_us") => {
            let part = |file: &str, else_: &str| told(file).unwrap_or_else(|| else_.to_owned());
            let line = format!("{} {}", part("cpu.cfs_quota_us", "max"), part("cpu.cfs_period_us", ""));
            return Ok(bandwidth(line.trim()).unwrap_or_default());
        }
        _ => return Ok(Vec::new()),
    };
    Ok(one.1.map(|value| (one.0, value)).into_iter().collect())
}

/// The weight, which an idle group has not.
fn weight(told: Now<'_>) -> Option<Value> {
    if told("cpu.idle").is_some_and(|idle| idle == "1") {
        return Some(Value::Number(IDLE));
    }
    number(&told("cpu.weight")?)
}

/// A size or count as the kernel reads it.
fn number(text: &str) -> Option<Value> {
    if text == "max" || text.starts_with('-') {
        return Some(Value::Number(INFINITY));
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        unit => 1 + ["k", "m", "g", "t", "p", "e"].iter().position(|one| unit.eq_ignore_ascii_case(one))?,
    };
    let number = digits.parse::<u64>().ok()?.checked_mul(1 << (10 * power))?;
    Some(Value::Number(if number >= ENDLESS { INFINITY } else { number }))
}

/// systemd refuses a limit of nothing at all; the file says it.
fn at_least_one(value: Value) -> Value {
    if value == Value::Number(0) { Value::Number(1) } else { value }
}

fn within_shares(value: Value) -> Value {
    match value {
        Value::Number(shares) => Value::Number(shares.clamp(2, 262_144)),
        other => other,
    }
}

/// `QUOTA PERIOD` of `cpu.max`.
fn bandwidth(value: &str) -> Option<Vec<Property>> {
    let (quota, period) = value.split_once(' ').unwrap_or((value, ""));
    let period = if period.is_empty() { DEFAULT_PERIOD } else { period.parse().ok()? };
    let quota = if quota == "max" { -1 } else { quota.parse().ok()? };
    let numbers = [("CPUQuotaPeriodUSec", period), ("CPUQuotaPerSecUSec", per_second(quota, period))];
    Some(numbers.map(|(name, number)| (name, Value::Number(number))).into())
}

/// The quota in µs a second. systemd keeps whole percents, and rounds down: so up to the next percent here.
fn per_second(quota: i64, period: u64) -> u64 {
    let Ok(quota) = u64::try_from(quota) else { return INFINITY };
    quota.saturating_mul(1_000_000).checked_div(period).map_or(INFINITY, |us| us.next_multiple_of(10_000))
}

/// The bits of a list of processors or memory nodes; none at all is "as above".
fn processors(file: &str, list: &str) -> Result<Vec<u8>> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    mask(list).ok_or_else(|| CgroupError::Invalid {
        setting: file.to_owned(),
        reason: format!("{list:?} is not a list like 0-3,7"),
    })
}

/// A list of numbers and ranges as bits, lowest first.
fn mask(list: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        bytes.resize(bytes.len().max(last / 8 + 1), 0);
        (first..=last).for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Plan;

    /// For a group that says these things now.
    fn changed(json: &str, mode: Mode, files: &[(&str, &str)]) -> Vec<(&'static str, Value)> {
        let resources = serde_json::from_str(json).unwrap();
        let plan = Plan::new(mode, &resources, None).unwrap();
        let now =
            |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, value)| (*value).to_owned());
        of_steps(&plan.steps, mode, &now).unwrap()
    }

    fn of(json: &str, mode: Mode) -> Vec<(&'static str, Value)> {
        changed(json, mode, &[])
    }

    #[test]
    fn properties_say_what_the_files_say() {
        let json = r#"{"memory":{"limit":1000,"swap":1500},"cpu":{"shares":1024,"quota":15000,"period":100000,"cpus":"0-2,9"},
                       "pids":{"limit":-1},"unified":{"memory.high":"max","memory.oom.group":"1"}}"#;
        let number = Value::Number;
        assert_eq!(
            of(json, Mode::V2),
            [
                ("AllowedCPUs", Value::Bytes(vec![0b111, 0b10])),
                ("CPUWeight", number(100)),
                ("CPUQuotaPeriodUSec", number(100_000)),
                ("CPUQuotaPerSecUSec", number(150_000)),
                ("MemorySwapMax", number(500)),
                ("MemoryMax", number(1000)),
                ("TasksMax", number(u64::MAX)),
                ("MemoryHigh", number(u64::MAX)),
                ("OOMPolicy", Value::Text("kill".to_owned())),
            ]
        );
        let json = r#"{"memory":{"limit":1000,"swap":1500},"cpu":{"shares":1024,"quota":20000,"period":50000,"cpus":"0"}}"#;
        assert_eq!(
            of(json, Mode::Hybrid),
            [
                ("CPUShares", number(1024)),
                ("CPUQuotaPeriodUSec", number(50_000)),
                ("CPUQuotaPerSecUSec", number(400_000)),
                ("MemoryLimit", number(1000)),
            ]
        );
    }

    #[test]
    fn files_by_name_are_told_as_well() {
        let json = r#"{"cpu":{"idle":1,"shares":512},"unified":{"cpu.max":"max 50000","cpuset.cpus":"1","io.weight":"default 7",
                       "memory.oom.group":"0","memory.max":"0","memory.low":"2M","io.max":"8:0 rbps=1"}}"#;
        let number = Value::Number;
        assert_eq!(
            of(json, Mode::V2),
            [
                ("CPUWeight", number(0)),
                ("CPUQuotaPeriodUSec", number(50_000)),
                ("CPUQuotaPerSecUSec", number(u64::MAX)),
                ("AllowedCPUs", Value::Bytes(vec![0b10])),
                ("IOWeight", number(7)),
                ("MemoryLow", number(2 << 20)),
                ("MemoryMax", number(1)),
            ]
        );
    }

    #[test]
    fn what_an_update_leaves_alone_is_part_of_the_property() {
        let half = |period| {
            vec![
                ("CPUQuotaPeriodUSec", Value::Number(period)),
                ("CPUQuotaPerSecUSec", Value::Number(500_000)),
            ]
        };
        // The files are written first: they say the new quota beside the old period.
        let now = [("cpu.max", "25000 50000"), ("cpu.cfs_quota_us", "25000"), ("cpu.cfs_period_us", "50000")];
        for mode in [Mode::V2, Mode::V1, Mode::Hybrid] {
            for json in [r#"{"cpu":{"quota":25000}}"#, r#"{"cpu":{"period":50000}}"#] {
                assert_eq!(changed(json, mode, &now), half(50_000), "{mode:?} {json}");
            }
        }
        assert_eq!(changed(r#"{"unified":{"cpu.max":"25000"}}"#, Mode::V2, &now), half(50_000));
        let awake = [("cpu.idle", "0"), ("cpu.weight", "59")];
        assert_eq!(changed(r#"{"cpu":{"idle":0}}"#, Mode::V2, &awake), [("CPUWeight", Value::Number(59))]);
        let free = [("memory.limit_in_bytes", "9223372036854771712"), ("cpuset.cpus", "")];
        let json = r#"{"memory":{"limit":-1},"cpu":{"cpus":"0"}}"#;
        assert_eq!(changed(json, Mode::V1, &free), [("MemoryLimit", Value::Number(INFINITY))]);
        assert_eq!(
            changed(r#"{"cpu":{"cpus":"0"}}"#, Mode::V2, &free),
            [("AllowedCPUs", Value::Bytes(Vec::new()))]
        );
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        let resources = serde_json::from_str(r#"{"cpu":{"cpus":"some"}}"#).unwrap();
        let plan = Plan::new(Mode::V2, &resources, None).unwrap();
        let error = of_steps(&plan.steps, Mode::V2, &|_| None).unwrap_err().to_string();
        assert!(error.contains("cpuset.cpus") && error.contains("some"), "{error}");
    }

    #[test]
    fn what_older_releases_refuse_is_known() {
        assert_eq!(since(&("CPUWeight", Value::Number(0))), 252);
        assert_eq!(since(&("CPUWeight", Value::Number(1))), 0);
        assert_eq!(since(&("OOMPolicy", Value::Text("kill".to_owned()))), 253);
    }

    #[test]
    fn quotas_are_rounded_up_to_whole_percents() {
        assert_eq!(per_second(12_345, 100_000), 130_000);
        assert_eq!(per_second(-1, 100_000), INFINITY);
        assert_eq!(per_second(1, 0), INFINITY);
    }

    #[test]
    fn masks() {
        assert_eq!(mask("0"), Some(vec![1]));
        assert_eq!(mask("8-9"), Some(vec![0, 3]));
        for bad in ["", "a", "3-1", "0-99999999999", "1,,2"] {
            assert_eq!(mask(bad), None, "{bad}");
        }
    }
}
