//! Resources as v1 files.

use berth_core::oci::{LinuxBlockIo, LinuxCpu, LinuxMemory, LinuxResources, LinuxThrottleDevice};

use super::{Step, Undo, Write, given, invalid, page_size, plain_word};
use crate::error::Result;

/// Steps for everything but devices.
pub(crate) fn plan(resources: &LinuxResources) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if let Some(cpu) = resources.cpu() {
        cpuset(cpu, &mut steps);
        cpu_time(cpu, &mut steps)?;
    }
    if let Some(memory) = resources.memory() {
        memory_steps(memory, &mut steps)?;
    }
    if let Some(pids) = resources.pids()
        && pids.limit() != 0
    {
        let value = if pids.limit() < 0 { "max".to_owned() } else { pids.limit().to_string() };
        steps.push(Step::one(Write::new("pids", "pids.max", value)));
    }
    if let Some(io) = resources.block_io() {
        block_io(io, &mut steps);
    }
    others(resources, &mut steps)?;
    if resources.unified().as_ref().is_some_and(|map| !map.is_empty()) {
        return Err(invalid("unified", "it needs cgroup v2, and this host has its controllers in v1"));
    }
    Ok(steps)
}

fn cpuset(cpu: &LinuxCpu, steps: &mut Vec<Step>) {
    for (file, value) in [("cpuset.cpus", cpu.cpus()), ("cpuset.mems", cpu.mems())] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            steps.push(Step::one(Write::new("cpuset", file, value)));
        }
    }
}

fn cpu_time(cpu: &LinuxCpu, steps: &mut Vec<Step>) -> Result<()> {
    match cpu.idle() {
        Some(idle @ (0 | 1)) => {
            steps.push(Step::one(Write { optional: idle == 0, ..Write::new("cpu", "cpu.idle", idle) }));
        }
        Some(other) => return Err(invalid("cpu.idle", format!("{other} is neither 0 nor 1"))),
        None => {}
    }
    // An idle group has a fixed weight, and the kernel refuses another.
    if let Some(shares) = cpu.shares().filter(|shares| *shares != 0 && cpu.idle() != Some(1)) {
        steps.push(Step::one(Write::new("cpu", "cpu.shares", shares)));
    }
    let mut bandwidth = Vec::new();
    if let Some(period) = cpu.period().filter(|period| *period != 0) {
        bandwidth.push(Write::new("cpu", "cpu.cfs_period_us", period));
    }
    if let Some(quota) = given(cpu.quota()) {
        bandwidth.push(Write::new("cpu", "cpu.cfs_quota_us", quota.max(-1)));
    }
    if let Some(burst) = cpu.burst() {
        bandwidth.push(Write::new("cpu", "cpu.cfs_burst_us", burst));
    }
    let mut realtime = Vec::new();
    if let Some(period) = cpu.realtime_period().filter(|period| *period != 0) {
        realtime.push(Write::new("cpu", "cpu.rt_period_us", period));
    }
    if let Some(runtime) = given(cpu.realtime_runtime()) {
        realtime.push(Write::new("cpu", "cpu.rt_runtime_us", runtime));
    }
    steps.extend([bandwidth, realtime].into_iter().filter(|writes| !writes.is_empty()).map(Step));
    Ok(())
}

fn memory_steps(memory: &LinuxMemory, steps: &mut Vec<Step>) -> Result<()> {
    let limit = given(memory.limit());
    let swap = given(memory.swap()).or(limit.filter(|limit| *limit == -1));
    if let (Some(limit), Some(swap)) = (limit, swap)
        && swap != -1
        && (swap < limit || limit == -1)
    {
        return Err(invalid("memory.swap", format!("{swap} is less than the limit {limit}: it counts both")));
    }
    let mut bounds = Vec::new();
    if let Some(limit) = limit {
        bounds.push(Write::new("memory", "memory.limit_in_bytes", limit));
    }
    if let Some(swap) = swap {
        // A kernel without swap accounting has no such file, and no swap to take.
        bounds.push(Write::new("memory", "memory.memsw.limit_in_bytes", swap).optional());
    }
    if !bounds.is_empty() {
        steps.push(Step(bounds));
    }
    if let Some(soft) = given(memory.reservation()) {
        steps.push(Step::one(Write::new("memory", "memory.soft_limit_in_bytes", soft)));
    }
    if let Some(tcp) = given(memory.kernel_tcp()) {
        steps.push(Step::one(Write::new("memory", "memory.kmem.tcp.limit_in_bytes", tcp)));
    }
    match memory.swappiness() {
        Some(value) if value > 100 => {
            return Err(invalid("memory.swappiness", format!("{value} is over 100")));
        }
        Some(value) => steps.push(Step::one(Write::new("memory", "memory.swappiness", value))),
        None => {}
    }
    // Left alone unless asked for: a group without the OOM killer hangs instead of ending.
    if memory.disable_oom_killer() == Some(true) {
        let write = Write::new("memory", "memory.oom_control", 1).undo(Undo::Keyed("oom_kill_disable"));
        steps.push(Step::one(write));
    }
    Ok(())
}

fn block_io(io: &LinuxBlockIo, steps: &mut Vec<Step>) {
    if let Some(weight) = io.weight().filter(|weight| *weight != 0) {
        steps.push(Step::one(Write::new("blkio", "blkio.weight", weight).or_to("blkio.bfq.weight")));
    }
    for device in io.weight_device().iter().flatten() {
        let Some(weight) = device.weight() else { continue };
        let key = format!("{}:{}", device.major(), device.minor());
        let write = Write::new("blkio", "blkio.weight_device", format!("{key} {weight}"))
            .or_to("blkio.bfq.weight_device")
            .undo(Undo::Line { reset: format!("{key} 0"), key });
        steps.push(Step::one(write));
    }
    for (file, devices) in [
        ("blkio.throttle.read_bps_device", io.throttle_read_bps_device()),
        ("blkio.throttle.write_bps_device", io.throttle_write_bps_device()),
        ("blkio.throttle.read_iops_device", io.throttle_read_iops_device()),
        ("blkio.throttle.write_iops_device", io.throttle_write_iops_device()),
    ] {
        steps.extend(devices.iter().flatten().map(|device| throttle(file, device)));
    }
}

fn throttle(file: &str, device: &LinuxThrottleDevice) -> Step {
    let key = format!("{}:{}", device.major(), device.minor());
    let write = Write::new("blkio", file, format!("{key} {}", device.rate()));
    Step::one(write.undo(Undo::Line { reset: format!("{key} 0"), key }))
}

fn others(resources: &LinuxResources, steps: &mut Vec<Step>) -> Result<()> {
    for page in resources.hugepage_limits().iter().flatten() {
        let size = page_size(page.page_size())?;
        // Zero, which the kubelet sends for every size, takes nothing away where there is no controller.
        let optional = page.limit() == 0;
        let write = |file: String| Write { optional, ..Write::new("hugetlb", file, page.limit()) };
        steps.push(Step::one(write(format!("hugetlb.{size}.limit_in_bytes"))));
        steps.push(Step::one(write(format!("hugetlb.{size}.rsvd.limit_in_bytes")).optional()));
    }
    if let Some(network) = resources.network() {
        if let Some(class) = network.class_id().filter(|class| *class != 0) {
            steps.push(Step::one(Write::new("net_cls", "net_cls.classid", class)));
        }
        for priority in network.priorities().iter().flatten() {
            let name = plain_word("network.priorities.name", priority.name())?;
            let write =
                Write::new("net_prio", "net_prio.ifpriomap", format!("{name} {}", priority.priority()));
            let undo = Undo::Line { key: name.to_owned(), reset: format!("{name} 0") };
            steps.push(Step::one(write.undo(undo)));
        }
    }
    super::v2::rdma(resources, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(json: &str) -> Result<Vec<Vec<(String, String)>>> {
        let resources: LinuxResources = serde_json::from_str(json).unwrap();
        let steps = plan(&resources)?;
        Ok(steps.into_iter().map(|step| step.0.into_iter().map(|w| (w.file, w.value)).collect()).collect())
    }

    fn flat(json: &str) -> Vec<String> {
        let steps = files(json).unwrap();
        steps.into_iter().flatten().map(|(file, value)| format!("{file}={value}")).collect()
    }

    #[test]
    fn only_what_is_set_is_written() {
        assert!(files("{}").unwrap().is_empty());
        let zeros =
            r#"{"memory":{"limit":0,"swap":0},"cpu":{"shares":0,"quota":0,"period":0},"pids":{"limit":0}}"#;
        assert!(files(zeros).unwrap().is_empty());
    }

    #[test]
    fn what_bounds_each_other_is_one_step() {
        let steps = files(
            r#"{"memory":{"limit":100,"swap":200,"disableOOMKiller":false},
                "cpu":{"shares":512,"quota":50000,"period":100000,"burst":1000,"cpus":"0","mems":"0"}}"#,
        );
        let lens: Vec<usize> = steps.unwrap().iter().map(Vec::len).collect();
        assert_eq!(lens, [1, 1, 1, 3, 2], "cpus, mems, shares, bandwidth, memory");
    }

    #[test]
    fn values_follow_the_specification() {
        assert_eq!(
            flat(r#"{"memory":{"limit":-1,"reservation":5,"disableOOMKiller":true},"pids":{"limit":-1}}"#),
            [
                "memory.limit_in_bytes=-1",
                "memory.memsw.limit_in_bytes=-1",
                "memory.soft_limit_in_bytes=5",
                "memory.oom_control=1",
                "pids.max=max"
            ]
        );
        assert_eq!(flat(r#"{"cpu":{"idle":1,"shares":1024}}"#), ["cpu.idle=1"]);
        assert_eq!(
            flat(
                r#"{"blockIO":{"weight":100,"throttleReadBpsDevice":[{"major":8,"minor":0,"rate":7}]},
                    "hugepageLimits":[{"pageSize":"2MB","limit":0}]}"#
            ),
            [
                "blkio.weight=100",
                "blkio.throttle.read_bps_device=8:0 7",
                "hugetlb.2MB.limit_in_bytes=0",
                "hugetlb.2MB.rsvd.limit_in_bytes=0"
            ]
        );
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (json, word) in [
            (r#"{"memory":{"limit":100,"swap":50}}"#, "memory.swap"),
            (r#"{"memory":{"swappiness":101}}"#, "swappiness"),
            (r#"{"cpu":{"idle":2}}"#, "cpu.idle"),
            (r#"{"unified":{"memory.high":"1"}}"#, "cgroup v2"),
            (r#"{"hugepageLimits":[{"pageSize":"../2MB","limit":1}]}"#, "page size"),
            (r#"{"network":{"priorities":[{"name":"a b","priority":1}]}}"#, "plain word"),
        ] {
            let error = files(json).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
