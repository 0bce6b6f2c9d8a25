//! Numbers of the v1 controllers.

use super::{Cpu, Io, Memory, Pids, Stats};
use crate::file::{Dir, lookup};
use crate::group::places::Places;

/// v1 writes "no limit" as the largest page-aligned number.
const UNLIMITED: u64 = 1 << 62;

pub(super) fn read(places: &Places) -> Stats {
    let part = |controller| places.v1_dir(controller);
    Stats {
        cpu: cpu(part("cpuacct"), part("cpu")),
        memory: part("memory").map_or_else(Memory::default, memory),
        pids: part("pids").map_or_else(Pids::default, |dir| Pids {
            current: dir.number("pids.current"),
            limit: dir.number("pids.max"),
        }),
        io: part("blkio").map_or_else(Io::default, io),
    }
}

fn cpu(accounts: Option<&Dir>, bandwidth: Option<&Dir>) -> Cpu {
    let stat = bandwidth.and_then(|dir| dir.read("cpu.stat").ok()).unwrap_or_default();
    Cpu {
        usage_ns: accounts.and_then(|dir| dir.number("cpuacct.usage")),
        user_ns: accounts.and_then(|dir| dir.number("cpuacct.usage_user")),
        system_ns: accounts.and_then(|dir| dir.number("cpuacct.usage_sys")),
        periods: lookup(&stat, "nr_periods"),
        throttled_periods: lookup(&stat, "nr_throttled"),
        throttled_ns: lookup(&stat, "throttled_time"),
        pressure: None,
    }
}

fn memory(dir: &Dir) -> Memory {
    let stat = dir.read("memory.stat").unwrap_or_default();
    let limit = |file| dir.number(file).filter(|limit| *limit < UNLIMITED);
    let usage = dir.number("memory.usage_in_bytes");
    let both = limit("memory.memsw.limit_in_bytes");
    Memory {
        usage,
        working_set: usage
            .zip(lookup(&stat, "total_inactive_file"))
            .map(|(all, idle)| all.saturating_sub(idle)),
        rss: lookup(&stat, "total_rss"),
        cache: lookup(&stat, "total_cache"),
        limit: limit("memory.limit_in_bytes"),
        page_faults: lookup(&stat, "total_pgfault"),
        major_page_faults: lookup(&stat, "total_pgmajfault"),
        swap_usage: lookup(&stat, "total_swap"),
        swap_limit: both
            .zip(limit("memory.limit_in_bytes"))
            .map(|(both, memory)| both.saturating_sub(memory)),
        available: None,
        pressure: None,
    }
}

fn io(dir: &Dir) -> Io {
    let sum = |file: &str, word: &str| {
        let text = dir.read(file).ok()?;
        let values = text.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            (fields.next()? == word).then(|| fields.next()?.parse::<u64>().ok()).flatten()
        });
        Some(values.sum())
    };
    Io {
        read_bytes: sum("blkio.throttle.io_service_bytes_recursive", "Read"),
        write_bytes: sum("blkio.throttle.io_service_bytes_recursive", "Write"),
        read_ops: sum("blkio.throttle.io_serviced_recursive", "Read"),
        write_ops: sum("blkio.throttle.io_serviced_recursive", "Write"),
        pressure: None,
    }
}
