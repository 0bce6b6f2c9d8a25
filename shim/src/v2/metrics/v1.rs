//! The form of v1.

use std::path::Path;

use berth_cgroup::Stats;
use berth_proto::containerd::cgroups_v1 as wire;

use super::{Table, from_table, inactive_file, number};

/// All figures; those of memory that are not in a [`Stats`] are read in `memory`.
pub(super) fn metrics(stats: &Stats, kills: u64, memory: &Path) -> wire::Metrics {
    let cpu = &stats.cpu;
    wire::Metrics {
        pids: Some(wire::PidsStat {
            current: stats.pids.current.unwrap_or(0),
            limit: stats.pids.limit.unwrap_or(0),
        }),
        cpu: Some(wire::CpuStat {
            usage: Some(wire::CpuUsage {
                total: cpu.usage_ns.unwrap_or(0),
                kernel: cpu.system_ns.unwrap_or(0),
                user: cpu.user_ns.unwrap_or(0),
            }),
            throttling: Some(wire::Throttle {
                periods: cpu.periods.unwrap_or(0),
                throttled_periods: cpu.throttled_periods.unwrap_or(0),
                throttled_time: cpu.throttled_ns.unwrap_or(0),
            }),
        }),
        memory: Some(of_memory(stats, memory)),
        blkio: Some(io(stats)),
        memory_oom_control: Some(oom(kills, memory)),
    }
}

fn of_memory(stats: &Stats, directory: &Path) -> wire::MemoryStat {
    let table = Table::read(&directory.join("memory.stat"));
    let mut memory = from_table!(
        table,
        wire::MemoryStat,
        cache "cache", rss "rss", rss_huge "rss_huge", mapped_file "mapped_file", dirty "dirty",
        writeback "writeback", pg_pg_in "pgpgin", pg_pg_out "pgpgout", pg_fault "pgfault", pg_maj_fault
        "pgmajfault", inactive_anon "inactive_anon", active_anon "active_anon", inactive_file
        "inactive_file", active_file "active_file", unevictable "unevictable", hierarchical_memory_limit
        "hierarchical_memory_limit", hierarchical_swap_limit "hierarchical_memsw_limit", total_cache
        "total_cache", total_rss "total_rss", total_rss_huge "total_rss_huge", total_mapped_file
        "total_mapped_file", total_dirty "total_dirty", total_writeback "total_writeback",
        total_pg_pg_in "total_pgpgin", total_pg_pg_out "total_pgpgout", total_pg_fault "total_pgfault",
        total_pg_maj_fault "total_pgmajfault", total_inactive_anon "total_inactive_anon",
        total_active_anon "total_active_anon", total_inactive_file "total_inactive_file",
        total_active_file "total_active_file", total_unevictable "total_unevictable",
    );
    // One reading of both, so that the working set is never negative.
    memory.total_inactive_file = inactive_file(stats);
    memory.usage = Some(entry(directory, "memory"));
    memory.swap = Some(entry(directory, "memory.memsw"));
    memory.kernel = Some(entry(directory, "memory.kmem"));
    memory.kernel_tcp = Some(entry(directory, "memory.kmem.tcp"));
    if let (Some(usage), Some(entry)) = (stats.memory.usage, memory.usage.as_mut()) {
        entry.usage = usage;
    }
    memory
}

fn entry(directory: &Path, prefix: &str) -> wire::MemoryEntry {
    let of = |file: &str| number(&directory.join(format!("{prefix}.{file}"))).unwrap_or(0);
    wire::MemoryEntry {
        limit: of("limit_in_bytes"),
        usage: of("usage_in_bytes"),
        max: of("max_usage_in_bytes"),
        failcnt: of("failcnt"),
    }
}

fn oom(kills: u64, directory: &Path) -> wire::MemoryOomControl {
    let table = Table::read(&directory.join("memory.oom_control"));
    wire::MemoryOomControl {
        oom_kill_disable: table.of("oom_kill_disable"),
        under_oom: table.of("under_oom"),
        oom_kill: kills,
    }
}

fn io(stats: &Stats) -> wire::BlkIoStat {
    let io = &stats.io;
    let entries = |read: Option<u64>, write: Option<u64>| {
        [("Read", read), ("Write", write)]
            .into_iter()
            .filter_map(|(op, value)| {
                Some(wire::BlkIoEntry { op: op.to_owned(), value: value?, ..Default::default() })
            })
            .collect()
    };
    wire::BlkIoStat {
        io_service_bytes_recursive: entries(io.read_bytes, io.write_bytes),
        io_serviced_recursive: entries(io.read_ops, io.write_ops),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("memory.stat", "cache 1\nrss 2\npgmajfault 3\nhierarchical_memsw_limit 4\ntotal_pgpgin 5\n");
        write("memory.kmem.usage_in_bytes", "6\n");
        let mut stats = Stats::default();
        stats.memory.usage = Some(100);
        stats.memory.working_set = Some(70);
        let memory = of_memory(&stats, folder.path());
        assert_eq!((memory.cache, memory.rss, memory.pg_maj_fault), (1, 2, 3));
        assert_eq!((memory.hierarchical_swap_limit, memory.total_pg_pg_in), (4, 5));
        assert_eq!((memory.kernel.unwrap().usage, memory.usage.unwrap().usage), (6, 100));
        assert_eq!(memory.total_inactive_file, 30);
    }
}
