//! Limits in the spec's words.

use crate::sandbox::Resources;
use berth_core::oci::{LinuxCpu, LinuxHugepageLimit, LinuxMemory, LinuxResources};

/// The limits; what is not set stays out. Without a limit of its own for swap, a container with a memory limit gets
/// none, so that the limit means what it says.
pub(crate) fn resources(asked: &Resources, swap_accounted: bool) -> LinuxResources {
    LinuxResources {
        cpu: cpu(asked),
        memory: memory(asked, swap_accounted),
        hugepage_limits: hugepages(asked),
        unified: (!asked.unified.is_empty()).then(|| asked.unified.clone().into_iter().collect()),
        ..LinuxResources::default()
    }
}

fn cpu(asked: &Resources) -> Option<LinuxCpu> {
    let cpu = LinuxCpu {
        shares: positive(asked.cpu_shares),
        period: positive(asked.cpu_period),
        quota: (asked.cpu_quota != 0).then_some(asked.cpu_quota),
        cpus: text(&asked.cpuset_cpus),
        mems: text(&asked.cpuset_mems),
        ..LinuxCpu::default()
    };
    (cpu != LinuxCpu::default()).then_some(cpu)
}

fn memory(asked: &Resources, swap_accounted: bool) -> Option<LinuxMemory> {
    let mut memory = LinuxMemory::default();
    if asked.memory_limit != 0 {
        memory.limit = Some(asked.memory_limit);
    }
    let swap = match asked.memory_swap_limit {
        0 => asked.memory_limit,
        given => given,
    };
    if swap_accounted && swap != 0 {
        memory.swap = Some(swap);
    }
    (memory != LinuxMemory::default()).then_some(memory)
}

fn hugepages(asked: &Resources) -> Option<Vec<LinuxHugepageLimit>> {
    let limit = |page: &crate::sandbox::HugepageLimit| LinuxHugepageLimit {
        page_size: page.page_size.clone(),
        limit: i64::try_from(page.limit).unwrap_or(i64::MAX),
    };
    let all: Vec<_> = asked.hugepages.iter().map(limit).collect();
    (!all.is_empty()).then_some(all)
}

fn positive(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| *value > 0)
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}
