//! The system calls of the default seccomp profile, by subject.
//!
//! Both spellings of a call are listed where 32-bit and 64-bit kernels differ; a name that an architecture does not
//! have is passed over when the profile is compiled. `io_uring`, `keyctl`, `userfaultfd` and their kin are absent on
//! purpose: large kernel surface, or not bound to a namespace.

/// What every container may call, in groups.
pub(super) const ALLOWED: &[&[&str]] = &[
    FILES,
    DESCRIPTORS,
    XATTRS,
    EVENTS,
    MEMORY,
    PROCESSES,
    THREADS,
    SIGNALS,
    TIME,
    SCHEDULING,
    IDENTITY,
    SOCKETS,
    IPC,
    MACHINE,
];

/// Files and directories by name.
#[rustfmt::skip]
const FILES: &[&str] = &[
    "access", "chdir", "chmod", "chown", "chown32", "creat", "faccessat", "faccessat2", "fchdir",
    "fchmodat", "fchmodat2", "fchownat", "fstatat64", "futimesat", "getcwd", "lchown", "lchown32", "link",
    "linkat", "lstat", "lstat64", "mkdir", "mkdirat", "mknod", "mknodat", "name_to_handle_at",
    "newfstatat", "open", "openat", "openat2", "readlink", "readlinkat", "rename", "renameat", "renameat2",
    "rmdir", "stat", "stat64", "statfs", "statfs64", "statx", "symlink", "symlinkat", "truncate",
    "truncate64", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimensat_time64", "utimes",
];

/// Work on open files.
#[rustfmt::skip]
const DESCRIPTORS: &[&str] = &[
    "_llseek", "close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "fadvise64",
    "fadvise64_64", "fallocate", "fanotify_mark", "fchmod", "fchown", "fchown32", "fcntl", "fcntl64",
    "fdatasync", "flock", "fstat", "fstat64", "fstatfs", "fstatfs64", "fsync", "ftruncate", "ftruncate64",
    "getdents", "getdents64", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
    "ioctl", "listmount", "lseek", "memfd_create", "memfd_secret", "pipe", "pipe2", "pread64", "preadv",
    "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readv", "sendfile", "sendfile64",
    "splice", "statmount", "sync", "sync_file_range", "syncfs", "tee", "vmsplice", "write", "writev",
];

/// Extended attributes.
#[rustfmt::skip]
const XATTRS: &[&str] = &[
    "fgetxattr", "flistxattr", "fremovexattr", "fsetxattr", "getxattr", "getxattrat", "lgetxattr",
    "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lsetxattr", "removexattr", "removexattrat",
    "setxattr", "setxattrat",
];

/// Waiting for events, asynchronous input and output.
#[rustfmt::skip]
const EVENTS: &[&str] = &[
    "_newselect", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "io_cancel", "io_destroy",
    "io_getevents", "io_pgetevents", "io_pgetevents_time64", "io_setup", "io_submit", "poll", "ppoll",
    "ppoll_time64", "pselect6", "pselect6_time64", "select", "signalfd", "signalfd4", "timerfd_create",
    "timerfd_gettime", "timerfd_gettime64", "timerfd_settime", "timerfd_settime64",
];

/// Memory.
#[rustfmt::skip]
const MEMORY: &[&str] = &[
    "brk", "cachestat", "madvise", "map_shadow_stack", "mincore", "mlock", "mlock2", "mlockall", "mmap",
    "mmap2", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc",
    "pkey_free", "pkey_mprotect", "process_mrelease", "remap_file_pages",
];

/// Processes, threads, debugging of one's own processes.
#[rustfmt::skip]
const PROCESSES: &[&str] = &[
    "execve", "execveat", "exit", "exit_group", "fork", "getpgid", "getpgrp", "getpid", "getppid",
    "getsid", "gettid", "kill", "pidfd_open", "pidfd_send_signal", "prctl", "process_vm_readv",
    "process_vm_writev", "ptrace", "set_tid_address", "setpgid", "setsid", "tgkill", "tkill", "vfork",
    "wait4", "waitid", "waitpid",
];

/// What thread libraries need.
#[rustfmt::skip]
const THREADS: &[&str] = &[
    "futex", "futex_requeue", "futex_time64", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list",
    "get_thread_area", "membarrier", "restart_syscall", "rseq", "set_robust_list", "set_thread_area",
    "uretprobe",
];

/// Signals.
#[rustfmt::skip]
const SIGNALS: &[&str] = &[
    "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64", "rt_tgsigqueueinfo", "sigaltstack",
    "sigprocmask", "sigreturn",
];

/// Clocks and timers.
#[rustfmt::skip]
const TIME: &[&str] = &[
    "adjtimex", "alarm", "clock_adjtime", "clock_adjtime64", "clock_getres", "clock_getres_time64",
    "clock_gettime", "clock_gettime64", "clock_nanosleep", "clock_nanosleep_time64", "getitimer",
    "gettimeofday", "nanosleep", "setitimer", "time", "timer_create", "timer_delete", "timer_getoverrun",
    "timer_gettime", "timer_gettime64", "timer_settime", "timer_settime64", "times",
];

/// Scheduling, limits and what the machine says of itself.
#[rustfmt::skip]
const SCHEDULING: &[&str] = &[
    "getcpu", "getpriority", "getrlimit", "getrusage", "ioprio_get", "ioprio_set", "prlimit64",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_rr_get_interval_time64",
    "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "setpriority", "setrlimit", "sysinfo", "ugetrlimit", "uname",
];

/// Users, groups, capabilities, and giving rights up.
#[rustfmt::skip]
const IDENTITY: &[&str] = &[
    "capget", "capset", "getegid", "getegid32", "geteuid", "geteuid32", "getgid", "getgid32", "getgroups",
    "getgroups32", "getrandom", "getresgid", "getresgid32", "getresuid", "getresuid32", "getuid",
    "getuid32", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
    "setfsgid", "setfsgid32", "setfsuid", "setfsuid32", "setgid", "setgid32", "setgroups", "setgroups32",
    "setregid", "setregid32", "setresgid", "setresgid32", "setresuid", "setresuid32", "setreuid",
    "setreuid32", "setuid", "setuid32",
];

/// Sockets, once made.
#[rustfmt::skip]
const SOCKETS: &[&str] = &[
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recv",
    "recvfrom", "recvmmsg", "recvmmsg_time64", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto",
    "setsockopt", "shutdown", "socketcall", "socketpair",
];

/// System V and POSIX queues.
#[rustfmt::skip]
const IPC: &[&str] = &[
    "ipc", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedreceive_time64",
    "mq_timedsend", "mq_timedsend_time64", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl",
    "semget", "semop", "semtimedop", "semtimedop_time64", "shmat", "shmctl", "shmdt", "shmget",
];

/// Calls of one architecture; elsewhere the names mean nothing.
#[rustfmt::skip]
const MACHINE: &[&str] = &[
    "arch_prctl", "arm_fadvise64_64", "arm_sync_file_range", "breakpoint", "cacheflush", "modify_ldt",
    "riscv_flush_icache", "riscv_hwprobe", "set_tls", "sync_file_range2",
];

/// What a capability opens on top. A call without its capability would fail in the kernel anyway; refusing it here
/// keeps the code behind it out of reach.
#[rustfmt::skip]
pub(super) const WITH_CAPABILITY: &[(&str, &[&str])] = &[
    ("CAP_BPF", &["bpf"]),
    ("CAP_DAC_READ_SEARCH", &["open_by_handle_at"]),
    ("CAP_PERFMON", &["perf_event_open"]),
    ("CAP_SYSLOG", &["syslog"]),
    ("CAP_SYS_ADMIN", &[
        "bpf", "clone", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick",
        "lookup_dcookie", "lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr", "mount",
        "mount_setattr", "move_mount", "open_tree", "perf_event_open", "quotactl", "quotactl_fd",
        "setdomainname", "sethostname", "setns", "syslog", "umount", "umount2", "unshare",
    ]),
    ("CAP_SYS_BOOT", &["reboot"]),
    ("CAP_SYS_CHROOT", &["chroot"]),
    ("CAP_SYS_MODULE", &["delete_module", "finit_module", "init_module"]),
    ("CAP_SYS_NICE", &["get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"]),
    ("CAP_SYS_PACCT", &["acct"]),
    ("CAP_SYS_PTRACE", &["kcmp", "pidfd_getfd", "process_madvise"]),
    ("CAP_SYS_RAWIO", &["ioperm", "iopl"]),
    ("CAP_SYS_TIME", &["clock_settime", "clock_settime64", "settimeofday", "stime"]),
    ("CAP_SYS_TTY_CONFIG", &["vhangup"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_sorted_and_no_call_is_in_two() {
        let mut all: Vec<&str> = ALLOWED.iter().flat_map(|group| group.iter().copied()).collect();
        assert!(ALLOWED.iter().all(|group| group.is_sorted()));
        assert!(WITH_CAPABILITY.iter().all(|(_, names)| names.is_sorted()));
        assert!(WITH_CAPABILITY.is_sorted_by_key(|(capability, _)| *capability));
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        let privileged = WITH_CAPABILITY.iter().flat_map(|(_, names)| names.iter());
        assert!(privileged.clone().all(|name| all.binary_search(name).is_err()));
    }
}
