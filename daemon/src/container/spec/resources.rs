//! Limits in the spec's words.

use crate::sandbox::Resources;
use oci_spec::runtime::{LinuxCpu, LinuxHugepageLimit, LinuxMemory, LinuxResources};

/// The limits; what is not set stays out. Without a limit of its own for swap, a container with a memory limit gets
/// none, so that the limit means what it says.
pub(crate) fn resources(asked: &Resources, swap_accounted: bool) -> LinuxResources {
    let mut limits = LinuxResources::default();
    limits.set_cpu(cpu(asked));
    limits.set_memory(memory(asked, swap_accounted));
    limits.set_hugepage_limits(hugepages(asked));
    if !asked.unified.is_empty() {
        limits.set_unified(Some(asked.unified.clone().into_iter().collect()));
    }
    limits
}

fn cpu(asked: &Resources) -> Option<LinuxCpu> {
    let mut cpu = LinuxCpu::default();
    cpu.set_shares(positive(asked.cpu_shares));
    cpu.set_period(positive(asked.cpu_period));
    cpu.set_quota((asked.cpu_quota != 0).then_some(asked.cpu_quota));
    cpu.set_cpus(text(&asked.cpuset_cpus));
    cpu.set_mems(text(&asked.cpuset_mems));
    (cpu != LinuxCpu::default()).then_some(cpu)
}

fn memory(asked: &Resources, swap_accounted: bool) -> Option<LinuxMemory> {
    let mut memory = LinuxMemory::default();
    if asked.memory_limit != 0 {
        memory.set_limit(Some(asked.memory_limit));
    }
    let swap = match asked.memory_swap_limit {
        0 => asked.memory_limit,
        given => given,
    };
    if swap_accounted && swap != 0 {
        memory.set_swap(Some(swap));
    }
    (memory != LinuxMemory::default()).then_some(memory)
}

fn hugepages(asked: &Resources) -> Option<Vec<LinuxHugepageLimit>> {
    let limit = |page: &crate::sandbox::HugepageLimit| {
        let mut limit = LinuxHugepageLimit::default();
        limit.set_page_size(page.page_size.clone());
        limit.set_limit(i64::try_from(page.limit).unwrap_or(i64::MAX));
        limit
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
