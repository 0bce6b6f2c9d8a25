//! The defaults a pod gets when it asks for nothing: capabilities, masked and read-only paths, the seccomp profile.
//!
//! Plain data. What follows Kubernetes here follows the kubelet and the field's RuntimeDefault, so that a workload
//! moved to this runtime finds the same walls.

mod calls;
pub mod seccomp;

pub use seccomp::{Action, Argument, Operator, Rule, Seccomp, seccomp_default};

/// The capabilities of a container that is neither privileged nor asks for others, in kernel order.
pub const DEFAULT_CAPABILITIES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SYS_CHROOT",
    "CAP_MKNOD",
    "CAP_AUDIT_WRITE",
    "CAP_SETFCAP",
];

/// Paths that a container must not read: what they tell is about the host, not about the container.
///
/// `powercap` is here because energy counters let one tenant watch another (RAPL), `interrupts` because its counts
/// do the same for keystrokes and network traffic.
pub const MASKED_PATHS: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Paths that a container may read but not write: they steer the whole kernel.
pub const READONLY_PATHS: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_hold_no_name_twice_and_only_absolute_paths() {
        for list in [DEFAULT_CAPABILITIES, MASKED_PATHS, READONLY_PATHS] {
            let mut sorted = list.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), list.len());
        }
        assert!(MASKED_PATHS.iter().chain(READONLY_PATHS).all(|path| path.starts_with('/')));
        assert!(DEFAULT_CAPABILITIES.iter().all(|cap| cap.starts_with("CAP_")));
        assert!(!DEFAULT_CAPABILITIES.contains(&"CAP_SYS_ADMIN"));
    }
}
