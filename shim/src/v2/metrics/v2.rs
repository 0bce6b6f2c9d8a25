//! The form of v2.

use std::path::Path;

use berth_cgroup::Stats;
use berth_cgroup::stats::{Pressure, Stall};
use berth_proto::containerd::cgroups_v2 as wire;

use super::{Table, from_table, inactive_file, number};

/// All figures; those that are not in a [`Stats`] are read in `directory`.
pub(super) fn metrics(stats: &Stats, kills: u64, directory: &Path) -> wire::Metrics {
    let cpu = &stats.cpu;
    let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
    let events = Table::read(&directory.join("memory.events"));
    let mut events = from_table!(
        events,
        wire::MemoryEvents,
        low "low", high "high", max "max", oom "oom", oom_kill "oom_kill", oom_group_kill
        "oom_group_kill",
    );
    events.oom_kill = kills;
    wire::Metrics {
        pids: Some(wire::PidsStat {
            current: stats.pids.current.unwrap_or(0),
            limit: stats.pids.limit.unwrap_or(0),
        }),
        cpu: Some(wire::CpuStat {
            usage_usec: us(cpu.usage_ns),
            user_usec: us(cpu.user_ns),
            system_usec: us(cpu.system_ns),
            nr_periods: cpu.periods.unwrap_or(0),
            nr_throttled: cpu.throttled_periods.unwrap_or(0),
            throttled_usec: us(cpu.throttled_ns),
            psi: psi(cpu.pressure),
        }),
        memory: Some(of_memory(stats, directory)),
        io: Some(io(stats, directory)),
        memory_events: Some(events),
    }
}

fn of_memory(stats: &Stats, directory: &Path) -> wire::MemoryStat {
    let table = Table::read(&directory.join("memory.stat"));
    let mut memory = from_table!(
        table,
        wire::MemoryStat,
        anon "anon", file "file", kernel_stack "kernel_stack", slab "slab", sock "sock", shmem "shmem",
        file_mapped "file_mapped", file_dirty "file_dirty", file_writeback "file_writeback", anon_thp
        "anon_thp", inactive_anon "inactive_anon", active_anon "active_anon", inactive_file
        "inactive_file", active_file "active_file", unevictable "unevictable", slab_reclaimable
        "slab_reclaimable", slab_unreclaimable "slab_unreclaimable", pgfault "pgfault", pgmajfault
        "pgmajfault", workingset_nodereclaim "workingset_nodereclaim", pgrefill "pgrefill", pgscan
        "pgscan", pgsteal "pgsteal", pgactivate "pgactivate", pgdeactivate "pgdeactivate", pglazyfree
        "pglazyfree", pglazyfreed "pglazyfreed", thp_fault_alloc "thp_fault_alloc", thp_collapse_alloc
        "thp_collapse_alloc",
    );
    // Two numbers since Linux 5.9.
    let both = |word: &str| table.of(&format!("{word}_anon")) + table.of(&format!("{word}_file"));
    memory.workingset_refault = both("workingset_refault");
    memory.workingset_activate = both("workingset_activate");
    // One reading of both, so that the working set is never negative.
    memory.inactive_file = inactive_file(stats);
    memory.usage = stats.memory.usage.unwrap_or(0);
    // No limit is the largest number here.
    memory.usage_limit = stats.memory.limit.unwrap_or(u64::MAX);
    memory.swap_usage = stats.memory.swap_usage.unwrap_or(0);
    memory.swap_limit = stats.memory.swap_limit.unwrap_or(u64::MAX);
    memory.max_usage = number(&directory.join("memory.peak")).unwrap_or(0);
    memory.swap_max_usage = number(&directory.join("memory.swap.peak")).unwrap_or(0);
    memory.psi = psi(stats.memory.pressure);
    memory
}

fn io(stats: &Stats, directory: &Path) -> wire::IoStat {
    let text = std::fs::read_to_string(directory.join("io.stat")).unwrap_or_default();
    wire::IoStat { usage: text.lines().filter_map(device).collect(), psi: psi(stats.io.pressure) }
}

/// `8:0 rbytes=1 wbytes=2 …`.
fn device(line: &str) -> Option<wire::IoEntry> {
    let (device, figures) = line.split_once(' ')?;
    let (major, minor) = device.split_once(':')?;
    let of = |key: &str| {
        let value = |word: &str| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
        figures.split(' ').find_map(value).unwrap_or(0)
    };
    Some(wire::IoEntry {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        rbytes: of("rbytes"),
        wbytes: of("wbytes"),
        rios: of("rios"),
        wios: of("wios"),
    })
}

fn psi(pressure: Option<Pressure>) -> Option<wire::PsiStats> {
    let data = |stall: Stall| wire::PsiData {
        avg10: stall.avg10,
        avg60: stall.avg60,
        avg300: stall.avg300,
        total: stall.total_us,
    };
    pressure
        .map(|pressure| wire::PsiStats { some: Some(data(pressure.some)), full: Some(data(pressure.full)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("memory.stat", "anon 1\nworkingset_refault_anon 2\nworkingset_refault_file 3\n");
        write("io.stat", "8:16 rbytes=10 wbytes=1 rios=2 wios=3 dbytes=0 dios=0\n");
        write("memory.events", "low 0\noom 4\noom_kill 9\n");
        let metrics = metrics(&Stats::default(), 2, folder.path());
        let memory = metrics.memory.unwrap();
        assert_eq!((memory.anon, memory.workingset_refault, memory.usage_limit), (1, 5, u64::MAX));
        let device = &metrics.io.unwrap().usage[0];
        assert_eq!((device.major, device.minor, device.rbytes, device.wios), (8, 16, 10, 3));
        let events = metrics.memory_events.unwrap();
        assert_eq!((events.oom, events.oom_kill), (4, 2));
    }
}
