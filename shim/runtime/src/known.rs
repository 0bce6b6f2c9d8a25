//! What this runtime knows, for `features`: lists that are sorted and true.

use serde_json::{Value, json};

/// Options of mounts that are understood here; others go to the file system.
pub fn mount_options() -> Vec<&'static str> {
    MOUNT_OPTIONS.split(' ').collect()
}

const MOUNT_OPTIONS: &str = "\
    acl async atime bind defaults dev diratime dirsync exec idmap iversion lazytime loud mand noacl noatime \
    nodev nodiratime noexec noiversion nolazytime nomand norelatime nostrictatime nosuid nosymfollow private \
    ratime rbind rdev rdiratime relatime remount rexec ridmap rnoatime rnodev rnodiratime rnoexec \
    rnorelatime rnostrictatime rnosuid rnosymfollow ro rprivate rrelatime rro rrw rshared rslave \
    rstrictatime rsuid rsymfollow runbindable rw shared silent slave strictatime suid symfollow sync \
    tmpcopyup unbindable";

/// Every capability.
pub fn capabilities() -> Vec<String> {
    crate::capability::all_names()
}

/// The `linux.seccomp` part.
pub fn seccomp() -> Value {
    json!({
        "enabled": true,
        "actions": [
            "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD",
            "SCMP_ACT_LOG", "SCMP_ACT_NOTIFY", "SCMP_ACT_TRACE", "SCMP_ACT_TRAP"
        ],
        "operators": [
            "SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_LE", "SCMP_CMP_LT", "SCMP_CMP_MASKED_EQ", "SCMP_CMP_NE"
        ],
        "archs": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM", "SCMP_ARCH_X86", "SCMP_ARCH_X86_64"],
        "knownFlags": [
            "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_TSYNC",
            "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"
        ]
    })
}
