//! The seccomp filter: actions, arguments, flags, the listener, calls that nobody knows.

use super::super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, Receiver};
use serde_json::{Value, json};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [actions(), more_actions(), forms(), listener(), bad()].into_iter().flatten().collect()
}

/// A filter that allows everything but what its rules say.
fn rules(rules: Value) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})
}

/// What happens to making a directory.
fn mkdir(action: &str) -> Value {
    json!([{"names": ["mkdir", "mkdirat"], "action": action}])
}

fn actions() -> Vec<Row> {
    let one = |name: &'static str, action: &'static str| {
        row(name).change(rules(mkdir(action))).sh("(mkdir /x); echo $?")
    };
    vec![
        one("seccomp: errno is EPERM", "SCMP_ACT_ERRNO").same(&["Operation not permitted\n"]),
        one("seccomp: kill", "SCMP_ACT_KILL").same(&["159\n"]),
        one("seccomp: kill thread", "SCMP_ACT_KILL_THREAD").same(&["159\n"]),
        one("seccomp: kill process", "SCMP_ACT_KILL_PROCESS").same(&["159\n"]),
        one("seccomp: trap", "SCMP_ACT_TRAP").same(&["159\n"]),
        one("seccomp: log", "SCMP_ACT_LOG").same(&["0\n"]),
        one("seccomp: trace without a tracer", "SCMP_ACT_TRACE").same(&["Function not implemented\n"]),
        one("seccomp: allow", "SCMP_ACT_ALLOW").same(&["0\n"]),
        row("seccomp: an errno of its own")
            .change(rules(
                json!([{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 71}]),
            ))
            .sh("mkdir /x")
            .same(&["Protocol error"]),
        row("seccomp: errno 0 is a success that does nothing")
            .change(rules(
                json!([{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0}]),
            ))
            .sh("mkdir /x; echo $?; ls -d /x")
            .same(&["0\n"]),
        row("seccomp: a default with its errno")
            .change(|spec, _| {
                spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,
                    "syscalls": [{"names": ALLOWED, "action": "SCMP_ACT_ALLOW"}]});
            })
            .sh("mkdir /x; hostname other")
            .same(&["Function not implemented"]),
        row("seccomp: the default profile")
            .change(|spec, _| spec["linux"]["seccomp"] = default_profile())
            .sh("grep -E '^(Seccomp|NoNewPrivs)' /proc/self/status; unshare -U true; mkdir /x && echo made")
            .same(&["Seccomp:\t2", "made"]),
    ]
}

fn more_actions() -> Vec<Row> {
    vec![
        row("seccomp: installed without no_new_privs")
            .change(|spec, _| {
                spec["linux"]["seccomp"] = default_profile();
                spec["process"]["noNewPrivileges"] = json!(false);
            })
            .sh("grep -E '^(Seccomp:|NoNewPrivs)' /proc/self/status")
            .same(&["NoNewPrivs:\t0\nSeccomp:\t2"]),
    ]
}

/// The filter of a pod that asks for nothing.
fn default_profile() -> Value {
    let profile = berth_core::profile::seccomp_default(berth_core::profile::DEFAULT_CAPABILITIES);
    profile.to_json().ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

/// What busybox's shell, and runc's last steps, need.
const ALLOWED: &[&str] = &[
    "access",
    "arch_prctl",
    "brk",
    "capget",
    "capset",
    "chdir",
    "clone",
    "clone3",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fchdir",
    "fchown",
    "fcntl",
    "fork",
    "fstat",
    "fstatfs",
    "futex",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getrandom",
    "getrlimit",
    "gettid",
    "getuid",
    "ioctl",
    "lseek",
    "lstat",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pipe",
    "pipe2",
    "poll",
    "prctl",
    "pread64",
    "prlimit64",
    "read",
    "readlink",
    "readlinkat",
    "recvfrom",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_yield",
    "seccomp",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "set_tid_address",
    "setgid",
    "setgroups",
    "setpgid",
    "setresgid",
    "setresuid",
    "setsid",
    "setuid",
    "sigaltstack",
    "stat",
    "statx",
    "tgkill",
    "time",
    "umask",
    "uname",
    "vfork",
    "wait4",
    "write",
    "writev",
    "fstatat64",
    "setitimer",
    "timer_create",
    "timer_settime",
];

fn forms() -> Vec<Row> {
    let arg = |op: &'static str, index: u32, value: u64, second: u64| {
        json!([{"names": ["socket"], "action": "SCMP_ACT_ERRNO", "errnoRet": 93,
            "args": [{"index": index, "op": op, "value": value, "valueTwo": second}]}])
    };
    let socket = |name: &'static str, op: &'static str, value: u64, second: u64| {
        row(name)
            .change(rules(arg(op, 0, value, second)))
            .sh("ifconfig lo > /dev/null; nc -h 2>/dev/null; ping -c1 -W1 ::1 > /dev/null; echo $?")
    };
    vec![
        socket("seccomp: an argument, equal", "SCMP_CMP_EQ", 2, 0).same(&["Protocol not supported"]),
        socket("seccomp: an argument, not equal", "SCMP_CMP_NE", 2, 0).same(&["\n"]),
        socket("seccomp: an argument, less", "SCMP_CMP_LT", 3, 0).same(&["Protocol not supported"]),
        socket("seccomp: an argument, less or equal", "SCMP_CMP_LE", 2, 0).same(&["Protocol not supported"]),
        socket("seccomp: an argument, greater", "SCMP_CMP_GT", 2, 0).same(&["\n"]),
        socket("seccomp: an argument, greater or equal", "SCMP_CMP_GE", 2, 0).same(&["Protocol not supported"]),
        socket("seccomp: an argument, masked", "SCMP_CMP_MASKED_EQ", 0xf, 2).same(&["Protocol not supported"]),
        row("seccomp: several arches")
            .change(|spec, _| {
                spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW",
                    "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "syscalls": mkdir("SCMP_ACT_ERRNO")});
            })
            .sh("mkdir /x")
            .same(&["Operation not permitted"]),
        row("seccomp: a call that nobody knows is passed over")
            .change(rules(json!([{"names": ["no_such_call", "mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}])))
            .sh("mkdir /x")
            .same(&["Operation not permitted"]),
        row("seccomp: flags")
            .change(|spec, _| {
                spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": mkdir("SCMP_ACT_ERRNO"),
                    "flags": ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"]});
            })
            .sh("mkdir /x")
            .same(&["Operation not permitted"]),
        row("seccomp: no rules").change(rules(json!([]))).sh("mkdir /x && echo made").same(&["made"]),
    ]
}

/// Runs a container whose agent takes the listener and lets it go: the call then fails with ENOSYS.
fn agent(bundle: &Bundle) -> Result<String> {
    let receiver = Receiver::new(&bundle.path("agent"))?;
    bundle.change(|spec| {
        spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": mkdir("SCMP_ACT_NOTIFY"),
            "listenerPath": bundle.text("agent"), "listenerMetadata": "some words"});
        spec["process"]["args"] = json!(["sh", "-c", "mkdir /x"]);
    })?;
    let mut step = bundle.step(&["run", bundle.id()])?;
    let child = step.spawn()?;
    let received = receiver.receive()?;
    let state: Value = serde_json::from_slice(&received.bytes)?;
    let told = format!(
        "{} fds, {} {} {} {} {}",
        received.fds.len(),
        state["metadata"],
        state["fds"],
        state["state"]["status"],
        state["state"]["id"] == bundle.id(),
        state["pid"].as_i64().is_some_and(|pid| pid > 0)
    );
    drop(received);
    let ran = step.end(child)?;
    Ok(format!("{told}\n{}", ran.seen(bundle)))
}

fn listener() -> Vec<Row> {
    vec![
        row("seccomp: a listener over its socket")
            .see(agent)
            .same(&["1 fds, \"some words\" [\"seccompFd\"] \"creating\" true true", "Function not implemented"]),
        row("seccomp: a listener without a path").change(rules(mkdir("SCMP_ACT_NOTIFY"))).refused(&["listenerPath"]),
        row("seccomp: a listener that nobody holds")
            .change(|spec, bundle| {
                spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": mkdir("SCMP_ACT_NOTIFY"),
                    "listenerPath": bundle.text("nobody")});
            })
            .refused(&["nobody"]),
        row("seccomp: write cannot ask a listener")
            .change(|spec, bundle| {
                spec["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": bundle.text("nobody"),
                    "syscalls": [{"names": ["write"], "action": "SCMP_ACT_NOTIFY"}]});
            })
            .refused(&["write"]),
    ]
}

fn bad() -> Vec<Row> {
    let with =
        |seccomp: Value| move |spec: &mut Value, _: &Bundle| spec["linux"]["seccomp"] = seccomp.clone();
    let action = |name: &'static str, value: &'static str| {
        row(name).change(with(json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": mkdir(value)})))
    };
    vec![
        action("seccomp: an unknown action", "SCMP_ACT_X").refused(&["linux.seccomp.syscalls[0].action"]),
        row("seccomp: an unknown default").change(with(json!({"defaultAction": "X"}))).refused(&["linux.seccomp.defaultAction"]),
        row("seccomp: no default").change(with(json!({"syscalls": []}))).differs("linux.seccomp", "[exit 0]", "a filter without its first word cannot be what was meant"),
        row("seccomp: an unknown architecture")
            .change(with(json!({"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_Z80"], "syscalls": mkdir("SCMP_ACT_ERRNO")})))
            .refused(&["linux.seccomp.architectures[0]"]),
        row("seccomp: an unknown flag")
            .change(with(json!({"defaultAction": "SCMP_ACT_ALLOW", "flags": ["X"], "syscalls": mkdir("SCMP_ACT_ERRNO")})))
            .refused(&["linux.seccomp.flags[0]"]),
        row("seccomp: a seventh argument")
            .change(rules(json!([{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 6, "op": "SCMP_CMP_EQ", "value": 1}]}])))
            .refused(&["syscalls[0].args[0].index"]),
        row("seccomp: an unknown operator")
            .change(rules(json!([{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "op": "X", "value": 1}]}])))
            .refused(&["linux.seccomp.syscalls[0].args[0].op"]),
        row("seccomp: an errno over the kernel's")
            .change(rules(json!([{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5000}])))
            .refused(&["linux.seccomp.syscalls[0].errnoRet"]),
    ]
}
