//! What a group uses.
//!
//! Every number is optional: a zero that only means "not known" misleads whoever computes a rate or a threshold.

mod v1;
mod v2;

use crate::file::Dir;
use crate::group::places::Places;
use crate::hierarchy::Mode;

/// A reading of one group, with all groups below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Processor time.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Processes and threads.
    pub pids: Pids,
    /// Block devices.
    pub io: Io,
}

/// Processor time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpu {
    /// Total, ns.
    pub usage_ns: Option<u64>,
    /// In user mode, ns.
    pub user_ns: Option<u64>,
    /// In the kernel, ns.
    pub system_ns: Option<u64>,
    /// Periods in which the group ran under a quota.
    pub periods: Option<u64>,
    /// Periods in which it was held back.
    pub throttled_periods: Option<u64>,
    /// How long it was held back, ns.
    pub throttled_ns: Option<u64>,
    /// Stall.
    pub pressure: Option<Pressure>,
}

/// Memory, bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// All that is charged.
    pub usage: Option<u64>,
    /// Usage without file pages that can be dropped at once.
    pub working_set: Option<u64>,
    /// Anonymous memory.
    pub rss: Option<u64>,
    /// Page cache.
    pub cache: Option<u64>,
    /// The limit; none if there is none.
    pub limit: Option<u64>,
    /// What is left below the limit, by the working set.
    pub available: Option<u64>,
    /// Page faults.
    pub page_faults: Option<u64>,
    /// Page faults that read from a device.
    pub major_page_faults: Option<u64>,
    /// Swap in use.
    pub swap_usage: Option<u64>,
    /// The limit of swap alone; none if there is none.
    pub swap_limit: Option<u64>,
    /// Stall.
    pub pressure: Option<Pressure>,
}

/// Processes and threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pids {
    /// Tasks now.
    pub current: Option<u64>,
    /// Most tasks; none if there is no limit.
    pub limit: Option<u64>,
}

/// Block devices, all together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Io {
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Read operations.
    pub read_ops: Option<u64>,
    /// Write operations.
    pub write_ops: Option<u64>,
    /// Stall.
    pub pressure: Option<Pressure>,
}

/// Pressure stall information of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Stall,
    /// All tasks waited.
    pub full: Stall,
}

/// Shares of time in percent over three windows, and the total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Over 10 s.
    pub avg10: f64,
    /// Over 60 s.
    pub avg60: f64,
    /// Over 300 s.
    pub avg300: f64,
    /// µs since the group was made.
    pub total_us: u64,
}

pub(crate) fn read(mode: Mode, places: &Places) -> Stats {
    let mut stats = match mode {
        Mode::V2 => places.unified.as_ref().map_or_else(Stats::default, v2::read),
        Mode::V1 | Mode::Hybrid => v1::read(places),
    };
    if let Some(dir) = &places.unified {
        stats.cpu.pressure = pressure(dir, "cpu.pressure");
        stats.memory.pressure = pressure(dir, "memory.pressure");
        stats.io.pressure = pressure(dir, "io.pressure");
    }
    let memory = &mut stats.memory;
    memory.available = memory.limit.zip(memory.working_set).map(|(limit, used)| limit.saturating_sub(used));
    stats
}

fn pressure(dir: &Dir, file: &str) -> Option<Pressure> {
    // The kernel gives EOPNOTSUPP where accounting is switched off.
    parse_pressure(&dir.read(file).ok()?)
}

fn parse_pressure(text: &str) -> Option<Pressure> {
    let stall = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        Some(Stall {
            avg10: field("avg10")?.parse().ok()?,
            avg60: field("avg60")?.parse().ok()?,
            avg300: field("avg300")?.parse().ok()?,
            total_us: field("total")?.parse().ok()?,
        })
    };
    Some(Pressure { some: stall("some")?, full: stall("full").unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_and_nothing_is_made_up() {
        let text = "some avg10=1.50 avg60=0.20 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        let pressure = parse_pressure(text).unwrap();
        assert!((pressure.some.avg10 - 1.5).abs() < 1e-9);
        assert_eq!((pressure.some.total_us, pressure.full.total_us), (77, 5));
        assert_eq!(parse_pressure(""), None);
        assert_eq!(parse_pressure("some avg10=x"), None);
        assert_eq!(read(Mode::V2, &Places::default()), Stats::default());
    }
}
