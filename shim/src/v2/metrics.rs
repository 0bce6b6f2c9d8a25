//! The figures of a cgroup in containerd's two forms.

use berth_cgroup::stats::{Pressure, Stall};
use berth_cgroup::{Cgroup, Mode, Stats};
use berth_proto::containerd::{Any, cgroups_v1 as v1, cgroups_v2 as v2};

/// "No limit" as v1 says it.
const UNLIMITED: u64 = i64::MAX as u64 & !0xfff;

/// What the group uses now.
pub(super) fn read(cgroup: &Cgroup) -> Any {
    let (stats, kills) = (cgroup.stats(), cgroup.oom_kills().unwrap_or(0));
    match cgroup.mode() {
        Mode::V2 => Any::of("io.containerd.cgroups.v2.Metrics", &new(&stats, kills)),
        Mode::V1 | Mode::Hybrid => Any::of("io.containerd.cgroups.v1.Metrics", &old(&stats, kills)),
    }
}

/// File pages that can be dropped at once.
fn inactive_file(stats: &Stats) -> u64 {
    let memory = &stats.memory;
    memory.usage.zip(memory.working_set).map_or(0, |(usage, set)| usage.saturating_sub(set))
}

fn old(stats: &Stats, kills: u64) -> v1::Metrics {
    let cpu = &stats.cpu;
    v1::Metrics {
        pids: Some(v1::PidsStat {
            current: stats.pids.current.unwrap_or(0),
            limit: stats.pids.limit.unwrap_or(0),
        }),
        cpu: Some(v1::CpuStat {
            usage: Some(v1::CpuUsage {
                total: cpu.usage_ns.unwrap_or(0),
                kernel: cpu.system_ns.unwrap_or(0),
                user: cpu.user_ns.unwrap_or(0),
            }),
            throttling: Some(v1::Throttle {
                periods: cpu.periods.unwrap_or(0),
                throttled_periods: cpu.throttled_periods.unwrap_or(0),
                throttled_time: cpu.throttled_ns.unwrap_or(0),
            }),
        }),
        memory: Some(old_memory(stats)),
        blkio: Some(old_io(stats)),
        memory_oom_control: Some(v1::MemoryOomControl { oom_kill: kills, ..Default::default() }),
    }
}

fn old_memory(stats: &Stats) -> v1::MemoryStat {
    let memory = &stats.memory;
    let limit = memory.limit.unwrap_or(UNLIMITED);
    let both = |swap: Option<u64>, memory: u64| swap.map_or(UNLIMITED, |swap| swap.saturating_add(memory));
    let usage = memory.usage.unwrap_or(0);
    let (cache, rss) = (memory.cache.unwrap_or(0), memory.rss.unwrap_or(0));
    let (faults, major) = (memory.page_faults.unwrap_or(0), memory.major_page_faults.unwrap_or(0));
    v1::MemoryStat {
        cache,
        rss,
        pg_fault: faults,
        pg_maj_fault: major,
        hierarchical_memory_limit: limit,
        hierarchical_swap_limit: both(memory.swap_limit, limit),
        total_cache: cache,
        total_rss: rss,
        total_pg_fault: faults,
        total_pg_maj_fault: major,
        total_inactive_file: inactive_file(stats),
        usage: Some(v1::MemoryEntry { limit, usage, ..Default::default() }),
        swap: Some(v1::MemoryEntry {
            limit: both(memory.swap_limit, limit),
            usage: usage.saturating_add(memory.swap_usage.unwrap_or(0)),
            ..Default::default()
        }),
    }
}

fn old_io(stats: &Stats) -> v1::BlkIoStat {
    let io = &stats.io;
    let entries = |read: Option<u64>, write: Option<u64>| {
        [("Read", read), ("Write", write)]
            .into_iter()
            .filter_map(|(op, value)| {
                Some(v1::BlkIoEntry { op: op.to_owned(), value: value?, ..Default::default() })
            })
            .collect()
    };
    v1::BlkIoStat {
        io_service_bytes_recursive: entries(io.read_bytes, io.write_bytes),
        io_serviced_recursive: entries(io.read_ops, io.write_ops),
    }
}

fn new(stats: &Stats, kills: u64) -> v2::Metrics {
    let (cpu, memory) = (&stats.cpu, &stats.memory);
    let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
    v2::Metrics {
        // No limit is zero here, and the largest number for memory.
        pids: Some(v2::PidsStat {
            current: stats.pids.current.unwrap_or(0),
            limit: stats.pids.limit.unwrap_or(0),
        }),
        cpu: Some(v2::CpuStat {
            usage_usec: us(cpu.usage_ns),
            user_usec: us(cpu.user_ns),
            system_usec: us(cpu.system_ns),
            nr_periods: cpu.periods.unwrap_or(0),
            nr_throttled: cpu.throttled_periods.unwrap_or(0),
            throttled_usec: us(cpu.throttled_ns),
            psi: psi(cpu.pressure),
        }),
        memory: Some(v2::MemoryStat {
            anon: memory.rss.unwrap_or(0),
            file: memory.cache.unwrap_or(0),
            inactive_file: inactive_file(stats),
            pgfault: memory.page_faults.unwrap_or(0),
            pgmajfault: memory.major_page_faults.unwrap_or(0),
            usage: memory.usage.unwrap_or(0),
            usage_limit: memory.limit.unwrap_or(u64::MAX),
            swap_usage: memory.swap_usage.unwrap_or(0),
            swap_limit: memory.swap_limit.unwrap_or(u64::MAX),
            psi: psi(memory.pressure),
        }),
        io: Some(new_io(stats)),
        memory_events: Some(v2::MemoryEvents { oom_kill: kills }),
    }
}

fn new_io(stats: &Stats) -> v2::IoStat {
    let io = &stats.io;
    let all = v2::IoEntry {
        major: 0,
        minor: 0,
        rbytes: io.read_bytes.unwrap_or(0),
        wbytes: io.write_bytes.unwrap_or(0),
        rios: io.read_ops.unwrap_or(0),
        wios: io.write_ops.unwrap_or(0),
    };
    v2::IoStat { usage: vec![all], psi: psi(io.pressure) }
}

fn psi(pressure: Option<Pressure>) -> Option<v2::PsiStats> {
    let data = |stall: Stall| v2::PsiData {
        avg10: stall.avg10,
        avg60: stall.avg60,
        avg300: stall.avg300,
        total: stall.total_us,
    };
    pressure.map(|pressure| v2::PsiStats { some: Some(data(pressure.some)), full: Some(data(pressure.full)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_set_survives_both_forms() {
        let mut stats = Stats::default();
        stats.memory.usage = Some(100);
        stats.memory.working_set = Some(70);
        stats.memory.swap_usage = Some(5);
        let memory = old(&stats, 2).memory.unwrap();
        assert_eq!(memory.total_inactive_file, 30);
        assert_eq!(memory.swap.unwrap().usage, 105, "memory and swap together, as v1 counts them");
        let metrics = new(&stats, 2);
        assert_eq!(metrics.memory.unwrap().inactive_file, 30);
        assert_eq!(metrics.memory_events.unwrap().oom_kill, 2);
    }
}
