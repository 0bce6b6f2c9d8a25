//! Resource limits by name, lists of CPUs and memory nodes, the memory policy.

use berth_core::oci::{Linux, MemoryPolicyFlagType, MemoryPolicyModeType};

/// The kernel's number of `RLIMIT_NAME`.
pub(crate) fn number(name: &str) -> Option<u32> {
    const NAMES: [&str; 16] = [
        "CPU",
        "FSIZE",
        "DATA",
        "STACK",
        "CORE",
        "RSS",
        "NPROC",
        "NOFILE",
        "MEMLOCK",
        "AS",
        "LOCKS",
        "SIGPENDING",
        "MSGQUEUE",
        "NICE",
        "RTPRIO",
        "RTTIME",
    ];
    let short = name.strip_prefix("RLIMIT_")?;
    NAMES.iter().position(|n| *n == short).map(|n| n as u32)
}

/// The mask of a list such as `0-3,7`; none when it is empty or malformed.
pub(crate) fn cpu_mask(list: &str) -> Option<Vec<u64>> {
    let mut mask = vec![0u64; 128];
    for part in list.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        if from > to || to >= mask.len() * 64 {
            return None;
        }
        for cpu in from..=to {
            mask[cpu / 64] |= 1 << (cpu % 64);
        }
    }
    mask.iter().any(|word| *word != 0).then_some(mask)
}

/// `linux.memoryPolicy` as set_mempolicy takes it: mode with flags, and the mask of nodes.
pub(crate) fn memory_policy(linux: &Linux) -> Option<(u32, Vec<u64>)> {
    let policy = linux.memory_policy().as_ref()?;
    let mode = match policy.mode() {
        MemoryPolicyModeType::MpolDefault => 0,
        MemoryPolicyModeType::MpolPreferred => 1,
        MemoryPolicyModeType::MpolBind => 2,
        MemoryPolicyModeType::MpolInterleave => 3,
        MemoryPolicyModeType::MpolLocal => 4,
        MemoryPolicyModeType::MpolPreferredMany => 5,
        MemoryPolicyModeType::MpolWeightedInterleave => 6,
    };
    let flags = policy.flags().iter().flatten().fold(0, |bits, flag| {
        bits | match flag {
            MemoryPolicyFlagType::MpolFNumaBalancing => 1 << 13,
            MemoryPolicyFlagType::MpolFRelativeNodes => 1 << 14,
            MemoryPolicyFlagType::MpolFStaticNodes => 1 << 15,
        }
    });
    // The kernel takes 1024 nodes at most.
    let nodes = policy.nodes().as_deref().and_then(cpu_mask).map(|mask| mask[..16].to_vec());
    Some((mode | flags, nodes.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_the_kernels_numbers() {
        assert_eq!(number("RLIMIT_NOFILE"), Some(7));
        assert_eq!(number("RLIMIT_RTTIME"), Some(15));
        assert_eq!(number("NOFILE"), None);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_mask("0-2,5").map(|m| m[0]), Some(0b10_0111));
        assert_eq!(cpu_mask("64").map(|m| (m[0], m[1])), Some((0, 1)));
        for bad in ["", "3-1", "x", "99999"] {
            assert_eq!(cpu_mask(bad), None, "{bad}");
        }
    }
}
