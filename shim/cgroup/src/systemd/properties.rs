//! Resources as properties of a unit, so that what systemd writes on a reload is what the files say.

use berth_core::oci::{LinuxCpu, LinuxMemory, LinuxResources};

use super::wire::Value;
use crate::error::{CgroupError, Result};
use crate::hierarchy::Mode;
use crate::limits::convert::{blkio_to_io_weight, shares_to_weight, swap_max};
use crate::path::CgroupPath;

/// A property's name and value.
pub(super) type Property = (&'static str, Value);

/// systemd's "no limit".
const INFINITY: u64 = u64::MAX;
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

/// The limits, as far as systemd knows them.
pub(super) fn of_resources(resources: &LinuxResources, mode: Mode) -> Result<Vec<Property>> {
    let mut numbers: Vec<(&'static str, u64)> = Vec::new();
    if let Some(memory) = resources.memory() {
        memory_numbers(memory, mode, &mut numbers)?;
    }
    if let Some(cpu) = resources.cpu() {
        cpu_numbers(cpu, mode, &mut numbers);
    }
    if let Some(pids) = resources.pids().filter(|pids| pids.limit() != 0) {
        numbers.push(("TasksMax", or_infinity(pids.limit())));
    }
    if let Some(weight) =
        resources.block_io().as_ref().and_then(|io| io.weight()).filter(|weight| *weight != 0)
    {
        numbers.push(match mode {
            Mode::V2 => ("IOWeight", blkio_to_io_weight(weight)),
            Mode::V1 | Mode::Hybrid => ("BlockIOWeight", u64::from(weight)),
        });
    }
    let mut list = numbers.into_iter().map(|(name, number)| (name, Value::Number(number))).collect();
    if mode == Mode::V2 {
        cpusets(resources, &mut list)?;
        unified(resources, &mut list);
    }
    Ok(list)
}

fn memory_numbers(memory: &LinuxMemory, mode: Mode, numbers: &mut Vec<(&'static str, u64)>) -> Result<()> {
    let given = |value: Option<i64>| value.filter(|value| *value != 0).map(or_infinity);
    if mode != Mode::V2 {
        numbers.extend(given(memory.limit()).map(|limit| ("MemoryLimit", limit)));
        return Ok(());
    }
    numbers.extend(given(memory.limit()).map(|limit| ("MemoryMax", limit)));
    numbers.extend(given(memory.reservation()).map(|low| ("MemoryLow", low)));
    let swap = swap_max(memory.limit(), memory.swap())?;
    numbers.extend(swap.map(|swap| ("MemorySwapMax", or_infinity(swap))));
    Ok(())
}

fn cpu_numbers(cpu: &LinuxCpu, mode: Mode, numbers: &mut Vec<(&'static str, u64)>) {
    let idle = cpu.idle() == Some(1);
    if idle && mode == Mode::V2 {
        numbers.push(("CPUWeight", IDLE));
    }
    let shares = cpu.shares().filter(|shares| *shares != 0 && !idle);
    numbers.extend(shares.map(|shares| match mode {
        Mode::V2 => ("CPUWeight", shares_to_weight(shares)),
        Mode::V1 | Mode::Hybrid => ("CPUShares", shares.clamp(2, 262_144)),
    }));
    let period = cpu.period().filter(|period| *period != 0);
    numbers.extend(period.map(|period| ("CPUQuotaPeriodUSec", period)));
    let quota = cpu.quota().filter(|quota| *quota != 0);
    let period = period.unwrap_or(DEFAULT_PERIOD);
    numbers.extend(quota.map(|quota| ("CPUQuotaPerSecUSec", per_second(quota, period))));
}

fn cpusets(resources: &LinuxResources, list: &mut Vec<Property>) -> Result<()> {
    let Some(cpu) = resources.cpu() else { return Ok(()) };
    for (name, setting, text) in
        [("AllowedCPUs", "cpu.cpus", cpu.cpus()), ("AllowedMemoryNodes", "cpu.mems", cpu.mems())]
    {
        if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
            let mask = mask(text).ok_or_else(|| CgroupError::Invalid {
                setting: setting.to_owned(),
                reason: format!("{text:?} is not a list like 0-3,7"),
            })?;
            list.push((name, Value::Bytes(mask)));
        }
    }
    Ok(())
}

/// Files that systemd would overwrite from a property of its own.
fn unified(resources: &LinuxResources, list: &mut Vec<Property>) {
    let mut files: Vec<_> = resources.unified().iter().flatten().collect();
    files.sort_unstable();
    for (file, value) in files {
        list.extend(of_file(file, value.trim()));
    }
}

/// The properties behind one file.
fn of_file(file: &str, value: &str) -> Vec<Property> {
    let bytes = |text: &str| mask(text).map(Value::Bytes);
    let one = match file {
        "memory.min" => ("MemoryMin", number(value)),
        "memory.low" => ("MemoryLow", number(value)),
        "memory.high" => ("MemoryHigh", number(value)),
        "memory.max" => ("MemoryMax", number(value)),
        "memory.swap.max" => ("MemorySwapMax", number(value)),
        "memory.oom.group" => ("OOMPolicy", (value == "1").then(|| Value::Text("kill".to_owned()))),
        "pids.max" => ("TasksMax", number(value)),
        "cpu.weight" => ("CPUWeight", number(value)),
        "cpu.idle" => ("CPUWeight", (value == "1").then_some(Value::Number(IDLE))),
        "cpuset.cpus" => ("AllowedCPUs", bytes(value)),
        "cpuset.mems" => ("AllowedMemoryNodes", bytes(value)),
        "io.weight" => ("IOWeight", number(value.trim_start_matches("default").trim_start())),
        "cpu.max" => return bandwidth(value).unwrap_or_default(),
        _ => return Vec::new(),
    };
    one.1.map(|value| (one.0, value)).into_iter().collect()
}

fn number(text: &str) -> Option<Value> {
    let number = if text == "max" { Some(INFINITY) } else { text.parse().ok() };
    number.map(Value::Number)
}

/// `QUOTA PERIOD` of `cpu.max`.
fn bandwidth(value: &str) -> Option<Vec<Property>> {
    let (quota, period) = value.split_once(' ').unwrap_or((value, ""));
    let period = if period.is_empty() { DEFAULT_PERIOD } else { period.parse().ok()? };
    let quota = if quota == "max" { -1 } else { quota.parse().ok()? };
    let numbers = [("CPUQuotaPeriodUSec", period), ("CPUQuotaPerSecUSec", per_second(quota, period))];
    Some(numbers.map(|(name, number)| (name, Value::Number(number))).into())
}

fn or_infinity(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(INFINITY)
}

/// The quota in µs a second. systemd keeps whole percents, and rounds down: so up to the next percent here.
fn per_second(quota: i64, period: u64) -> u64 {
    let Ok(quota) = u64::try_from(quota) else { return INFINITY };
    quota.saturating_mul(1_000_000).checked_div(period).map_or(INFINITY, |us| us.next_multiple_of(10_000))
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

    fn of(json: &str, mode: Mode) -> Vec<(&'static str, Value)> {
        of_resources(&serde_json::from_str(json).unwrap(), mode).unwrap()
    }

    #[test]
    fn properties_say_what_the_files_say() {
        let json = r#"{"memory":{"limit":1000,"swap":1500},"cpu":{"shares":1024,"quota":15000,"period":100000,"cpus":"0-2,9"},
                       "pids":{"limit":-1},"unified":{"memory.high":"max","memory.oom.group":"1"}}"#;
        let number = Value::Number;
        assert_eq!(
            of(json, Mode::V2),
            [
                ("MemoryMax", number(1000)),
                ("MemorySwapMax", number(500)),
                ("CPUWeight", number(100)),
                ("CPUQuotaPeriodUSec", number(100_000)),
                ("CPUQuotaPerSecUSec", number(150_000)),
                ("TasksMax", number(u64::MAX)),
                ("AllowedCPUs", Value::Bytes(vec![0b111, 0b10])),
                ("MemoryHigh", number(u64::MAX)),
                ("OOMPolicy", Value::Text("kill".to_owned())),
            ]
        );
        assert_eq!(
            of(r#"{"memory":{"limit":1000,"swap":1500},"cpu":{"shares":1024}}"#, Mode::Hybrid),
            [("MemoryLimit", number(1000)), ("CPUShares", number(1024))]
        );
    }

    #[test]
    fn files_by_name_are_told_as_well() {
        let json = r#"{"cpu":{"idle":1,"shares":512},"unified":{"cpu.max":"max 50000","cpuset.cpus":"1","io.weight":"default 7",
                       "memory.oom.group":"0","cpu.idle":"0","io.max":"8:0 rbps=1"}}"#;
        let number = Value::Number;
        assert_eq!(
            of(json, Mode::V2),
            [
                ("CPUWeight", number(0)),
                ("CPUQuotaPeriodUSec", number(50_000)),
                ("CPUQuotaPerSecUSec", number(u64::MAX)),
                ("AllowedCPUs", Value::Bytes(vec![0b10])),
                ("IOWeight", number(7)),
            ]
        );
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
