//! Resources as v2 files.

use berth_core::oci::{LinuxBlockIo, LinuxCpu, LinuxMemory, LinuxResources};

use super::convert::{blkio_to_io_weight, max_or, shares_to_weight, swap_max};
use super::{Step, Undo, Write, given, invalid, page_size, plain_word};
use crate::error::Result;

/// The kernel's own period, when the specification names none and the group has none yet.
const DEFAULT_PERIOD: u64 = 100_000;

/// What `unified` must not touch: these steer processes, not resources.
const NOT_RESOURCES: [&str; 6] = [
    "cgroup.procs",
    "cgroup.threads",
    "cgroup.kill",
    "cgroup.freeze",
    "cgroup.subtree_control",
    "cgroup.type",
];

/// Steps for everything but devices. `present` is what the group's `cpu.max` says now.
pub(crate) fn plan(resources: &LinuxResources, present: Option<&str>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if let Some(cpu) = resources.cpu() {
        cpu_steps(cpu, present, &mut steps)?;
    }
    if let Some(memory) = resources.memory() {
        memory_steps(memory, &mut steps)?;
    }
    if let Some(pids) = resources.pids()
        && pids.limit() != 0
    {
        steps.push(Step::one(Write::new("pids", "pids.max", max_or(pids.limit()))));
    }
    if let Some(io) = resources.block_io() {
        block_io(io, &mut steps);
    }
    for page in resources.hugepage_limits().iter().flatten() {
        let size = page_size(page.page_size())?;
        let write = |file: String| Write {
            optional: page.limit() == 0,
            ..Write::new("hugetlb", file, max_or(page.limit()))
        };
        steps.push(Step::one(write(format!("hugetlb.{size}.max"))));
        steps.push(Step::one(write(format!("hugetlb.{size}.rsvd.max")).optional()));
    }
    rdma(resources, &mut steps)?;
    unified(resources, &mut steps)?;
    Ok(steps)
}

/// The line of `cpu.max`; what is not given stays as it is.
fn bandwidth_of(cpu: &LinuxCpu, present: Option<&str>) -> Option<String> {
    let period = cpu.period().filter(|period| *period != 0);
    if given(cpu.quota()).is_none() && period.is_none() {
        return None;
    }
    let mut words = present.unwrap_or_default().split(' ');
    let (quota_now, period_now) = (words.next().filter(|word| !word.is_empty()), words.next());
    let quota = match given(cpu.quota()) {
        Some(quota) => max_or(quota),
        None => quota_now.unwrap_or("max").to_owned(),
    };
    let period_now = period_now.and_then(|word| word.parse().ok()).unwrap_or(DEFAULT_PERIOD);
    Some(format!("{quota} {}", period.unwrap_or(period_now)))
}

fn cpu_steps(cpu: &LinuxCpu, present: Option<&str>, steps: &mut Vec<Step>) -> Result<()> {
    for (file, value) in [("cpuset.cpus", cpu.cpus()), ("cpuset.mems", cpu.mems())] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            steps.push(Step::one(Write::new("cpuset", file, value)));
        }
    }
    if let Some(idle) = cpu.idle() {
        if !(0..=1).contains(&idle) {
            return Err(invalid("cpu.idle", format!("{idle} is neither 0 nor 1")));
        }
        steps.push(Step::one(Write { optional: idle == 0, ..Write::new("cpu", "cpu.idle", idle) }));
    }
    if let Some(shares) = cpu.shares().filter(|shares| *shares != 0 && cpu.idle() != Some(1)) {
        steps.push(Step::one(Write::new("cpu", "cpu.weight", shares_to_weight(shares))));
    }
    let mut bandwidth = Vec::new();
    if let Some(value) = bandwidth_of(cpu, present) {
        bandwidth.push(Write::new("cpu", "cpu.max", value));
    }
    if let Some(burst) = cpu.burst() {
        bandwidth.push(Write::new("cpu", "cpu.max.burst", burst));
    }
    if !bandwidth.is_empty() {
        steps.push(Step(bandwidth));
    }
    if given(cpu.realtime_runtime()).is_some_and(|runtime| runtime > 0) {
        return Err(invalid("cpu.realtimeRuntime", "cgroup v2 has no real-time groups"));
    }
    Ok(())
}

fn memory_steps(memory: &LinuxMemory, steps: &mut Vec<Step>) -> Result<()> {
    if let Some(swap) = swap_max(memory.limit(), memory.swap())? {
        // Without swap accounting there is no file; "none" and "no limit" need none.
        let write = Write::new("memory", "memory.swap.max", max_or(swap));
        steps.push(Step::one(Write { optional: swap <= 0, ..write }));
    }
    if let Some(limit) = given(memory.limit()) {
        steps.push(Step::one(Write::new("memory", "memory.max", max_or(limit))));
    }
    if let Some(low) = given(memory.reservation()) {
        steps.push(Step::one(Write::new("memory", "memory.low", max_or(low))));
    }
    Ok(())
}

fn block_io(io: &LinuxBlockIo, steps: &mut Vec<Step>) {
    if let Some(weight) = io.weight().filter(|weight| *weight != 0) {
        steps.push(Step::one(Write::new(
            "io",
            "io.weight",
            format!("default {}", blkio_to_io_weight(weight)),
        )));
    }
    for device in io.weight_device().iter().flatten() {
        let Some(weight) = device.weight() else { continue };
        let key = format!("{}:{}", device.major(), device.minor());
        let write = Write::new("io", "io.weight", format!("{key} {}", blkio_to_io_weight(weight)));
        steps.push(Step::one(write.undo(Undo::Line { reset: format!("{key} default"), key })));
    }
    for (word, devices) in [
        ("rbps", io.throttle_read_bps_device()),
        ("wbps", io.throttle_write_bps_device()),
        ("riops", io.throttle_read_iops_device()),
        ("wiops", io.throttle_write_iops_device()),
    ] {
        for device in devices.iter().flatten() {
            let key = format!("{}:{}", device.major(), device.minor());
            let rate = if device.rate() == 0 { "max".to_owned() } else { device.rate().to_string() };
            let write = Write::new("io", "io.max", format!("{key} {word}={rate}"));
            steps.push(Step::one(write.undo(Undo::Line { reset: format!("{key} {word}=max"), key })));
        }
    }
}

/// RDMA limits; the files are the same in both generations.
pub(super) fn rdma(resources: &LinuxResources, steps: &mut Vec<Step>) -> Result<()> {
    let mut devices: Vec<_> = resources.rdma().iter().flatten().collect();
    devices.sort_by_key(|(name, _)| name.as_str());
    for (name, limit) in devices {
        let name = plain_word("rdma", name)?;
        let number = |value: Option<u32>| value.map_or_else(|| "max".to_owned(), |value| value.to_string());
        let (handles, objects) = (number(limit.hca_handles()), number(limit.hca_objects()));
        let write =
            Write::new("rdma", "rdma.max", format!("{name} hca_handle={handles} hca_object={objects}"));
        let reset = format!("{name} hca_handle=max hca_object=max");
        steps.push(Step::one(write.undo(Undo::Line { key: name.to_owned(), reset })));
    }
    Ok(())
}

/// Files by name, last, so that they win over what the other settings wrote.
fn unified(resources: &LinuxResources, steps: &mut Vec<Step>) -> Result<()> {
    let mut files: Vec<_> = resources.unified().iter().flatten().collect();
    files.sort_unstable();
    for (file, value) in files {
        let setting = || format!("unified.{file:?}");
        let known: Option<&'static str> = match file.split_once('.').map(|(controller, _)| controller) {
            Some("memory") => Some("memory"),
            Some("cpu") => Some("cpu"),
            Some("cpuset") => Some("cpuset"),
            Some("io") => Some("io"),
            Some("pids") => Some("pids"),
            Some("hugetlb") => Some("hugetlb"),
            Some("rdma") => Some("rdma"),
            Some("misc") => Some("misc"),
            Some("cgroup") if !NOT_RESOURCES.contains(&file.as_str()) => Some("cgroup"),
            _ => None,
        };
        let Some(controller) = known.filter(|_| !file.contains('/')) else {
            return Err(invalid(setting(), "not a resource file of cgroup v2"));
        };
        for line in value.lines() {
            steps.push(Step::one(Write::new(controller, file.clone(), line)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(json: &str, present: Option<&str>) -> Result<Vec<String>> {
        let resources: LinuxResources = serde_json::from_str(json).unwrap();
        let steps = plan(&resources, present)?;
        Ok(steps.into_iter().flat_map(|step| step.0).map(|w| format!("{}={}", w.file, w.value)).collect())
    }

    #[test]
    fn values_follow_the_specification() {
        let json = r#"{"memory":{"limit":1000,"swap":1500,"reservation":10},
                       "cpu":{"shares":1024,"quota":20000,"period":50000,"burst":5,"cpus":"0-1"},
                       "pids":{"limit":64}}"#;
        assert_eq!(
            flat(json, None).unwrap(),
            [
                "cpuset.cpus=0-1",
                "cpu.weight=100",
                "cpu.max=20000 50000",
                "cpu.max.burst=5",
                "memory.swap.max=500",
                "memory.max=1000",
                "memory.low=10",
                "pids.max=64"
            ]
        );
    }

    #[test]
    fn a_quota_alone_keeps_the_period() {
        assert_eq!(flat(r#"{"cpu":{"quota":-1}}"#, Some("7000 40000")).unwrap(), ["cpu.max=max 40000"]);
        assert_eq!(flat(r#"{"cpu":{"quota":7000}}"#, None).unwrap(), ["cpu.max=7000 100000"]);
    }

    #[test]
    fn a_period_alone_keeps_the_quota() {
        assert_eq!(flat(r#"{"cpu":{"period":50000}}"#, Some("7000 40000")).unwrap(), ["cpu.max=7000 50000"]);
        assert_eq!(flat(r#"{"cpu":{"period":50000}}"#, None).unwrap(), ["cpu.max=max 50000"]);
    }

    #[test]
    fn unified_comes_last_sorted_and_cannot_leave_the_group() {
        let json = r#"{"memory":{"limit":9},"unified":{"memory.oom.group":"1","memory.high":"8"}}"#;
        assert_eq!(flat(json, None).unwrap(), ["memory.max=9", "memory.high=8", "memory.oom.group=1"]);
        for bad in ["../x/memory.max", "cgroup.procs", "cgroup.kill", "plain", "memory/.max", ".x"] {
            let json = format!(r#"{{"unified":{{{bad:?}:"1"}}}}"#);
            assert!(flat(&json, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn block_io_is_converted() {
        let json =
            r#"{"blockIO":{"weight":1000,"throttleWriteIOPSDevice":[{"major":8,"minor":16,"rate":9}]}}"#;
        assert_eq!(flat(json, None).unwrap(), ["io.weight=default 10000", "io.max=8:16 wiops=9"]);
    }
}
