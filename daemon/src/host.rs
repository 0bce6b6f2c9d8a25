//! What is found out about this host once, at start.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Facts about the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether this daemon sees the same mounts as PID 1. If not, volumes that the kubelet mounts do not reach
    /// containers, unless the kubelet lives in the same mount namespace.
    pub shares_host_mounts: bool,
}

impl Host {
    /// Looks.
    #[must_use]
    pub fn look() -> Self {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            kernel: line("/proc/sys/kernel/osrelease"),
            shares_host_mounts: same_namespace("/proc/self/ns/mnt", "/proc/1/ns/mnt"),
        }
    }

    /// Says loudly what an administrator should know.
    pub fn warn(&self) {
        if !self.shares_host_mounts {
            tracing::warn!(
                "this daemon is NOT in the mount namespace of PID 1: volumes mounted by a kubelet outside it will be \
                 missing or stale in containers. Remove PrivateMounts, ProtectSystem, PrivateTmp and the like from \
                 its unit, or run the kubelet in the same namespace"
            );
        }
    }
}

fn same_namespace(left: &str, right: &str) -> bool {
    let identity = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    match (identity(left), identity(right)) {
        (Some(left), Some(right)) => left == right,
        // Where /proc/1 cannot be read there is nothing to compare with.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_compared_by_identity() {
        assert!(same_namespace("/proc/self/ns/mnt", "/proc/self/ns/mnt"));
        assert!(!same_namespace("/proc/self/ns/mnt", "/proc/self/ns/net"));
        assert!(same_namespace("/proc/self/ns/mnt", "/nowhere"));
        assert_eq!(Host::look().boot_id.len(), 36);
    }
}
