//! Numbers of the unified tree.

use super::{Cpu, Io, Memory, Pids, Stats};
use crate::file::{Dir, lookup};

pub(super) fn read(dir: &Dir) -> Stats {
    Stats {
        cpu: cpu(&dir.read("cpu.stat").unwrap_or_default()),
        memory: memory(dir),
        pids: Pids { current: dir.number("pids.current"), limit: dir.number("pids.max") },
        io: dir.read("io.stat").map_or_else(|_| Io::default(), |text| io(&text)),
    }
}

fn cpu(stat: &str) -> Cpu {
    let ns = |key| lookup(stat, key).map(|us| us.saturating_mul(1000));
    Cpu {
        usage_ns: ns("usage_usec"),
        user_ns: ns("user_usec"),
        system_ns: ns("system_usec"),
        periods: lookup(stat, "nr_periods"),
        throttled_periods: lookup(stat, "nr_throttled"),
        throttled_ns: ns("throttled_usec"),
        pressure: None,
    }
}

fn memory(dir: &Dir) -> Memory {
    let stat = dir.read("memory.stat").unwrap_or_default();
    let usage = dir.number("memory.current");
    Memory {
        usage,
        working_set: usage.zip(lookup(&stat, "inactive_file")).map(|(all, idle)| all.saturating_sub(idle)),
        rss: lookup(&stat, "anon"),
        cache: lookup(&stat, "file"),
        limit: dir.number("memory.max"),
        page_faults: lookup(&stat, "pgfault"),
        major_page_faults: lookup(&stat, "pgmajfault"),
        swap_usage: dir.number("memory.swap.current"),
        swap_limit: dir.number("memory.swap.max"),
        available: None,
        pressure: None,
    }
}

fn io(text: &str) -> Io {
    let sum = |name: &str| {
        let values = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
        Some(values.sum())
    };
    Io {
        read_bytes: sum("rbytes"),
        write_bytes: sum("wbytes"),
        read_ops: sum("rios"),
        write_ops: sum("wios"),
        pressure: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_summed_and_microseconds_become_nanoseconds() {
        let io = io(
            "8:0 rbytes=10 wbytes=1 rios=2 wios=3 dbytes=0 dios=0\n8:16 rbytes=5 wbytes=2 rios=1 wios=1\n",
        );
        assert_eq!(
            (io.read_bytes, io.write_bytes, io.read_ops, io.write_ops),
            (Some(15), Some(3), Some(3), Some(4))
        );
        let cpu = cpu("usage_usec 7\nuser_usec 4\nsystem_usec 3\n");
        assert_eq!((cpu.usage_ns, cpu.user_ns, cpu.periods), (Some(7000), Some(4000), None));
    }
}
