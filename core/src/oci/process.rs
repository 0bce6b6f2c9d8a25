//! The process of a container or of an exec.

use super::capability::LinuxCapabilities;
use super::json::{Json, Wrong};
use super::record::{json_words, record, words};
use serde_json::Value;
use std::path::PathBuf;

record! {
    /// What is executed, as whom, with what.
    Process {
        terminal: Option<bool> = "terminal" copy,
        console_size: Option<ConsoleSize> = "consoleSize" copy,
        user: User = "user",
        args: Option<Vec<String>> = "args",
        env: Option<Vec<String>> = "env",
        cwd: PathBuf = "cwd",
        capabilities: Option<LinuxCapabilities> = "capabilities",
        rlimits: Option<Vec<PosixRlimit>> = "rlimits",
        no_new_privileges: Option<bool> = "noNewPrivileges" copy,
        apparmor_profile: Option<String> = "apparmorProfile",
        oom_score_adj: Option<i32> = "oomScoreAdj" copy,
        selinux_label: Option<String> = "selinuxLabel",
        io_priority: Option<LinuxIOPriority> = "ioPriority",
        scheduler: Option<Scheduler> = "scheduler",
        exec_cpu_affinity: Option<ExecCpuAffinity> = "execCPUAffinity",
    }

    /// The size of a terminal.
    #[derive(Copy)]
    ConsoleSize {
        height: u64 = "height" copy default,
        width: u64 = "width" copy default,
    }

    /// Who.
    User {
        uid: u32 = "uid" copy default,
        gid: u32 = "gid" copy default,
        umask: Option<u32> = "umask" copy,
        additional_gids: Option<Vec<u32>> = "additionalGids",
        username: Option<String> = "username",
    }

    /// A limit of setrlimit.
    #[derive(Copy)]
    PosixRlimit {
        typ: PosixRlimitType = "type" copy,
        hard: u64 = "hard" copy default,
        soft: u64 = "soft" copy default,
    }

    /// Priority of I/O.
    #[derive(Copy)]
    LinuxIOPriority {
        class: IOPriorityClass = "class" copy default,
        priority: i64 = "priority" copy default,
    }

    /// How the kernel schedules the process.
    Scheduler {
        policy: LinuxSchedulerPolicy = "policy",
        nice: Option<i32> = "nice",
        priority: Option<i32> = "priority",
        flags: Option<Vec<LinuxSchedulerFlag>> = "flags",
        runtime: Option<u64> = "runtime",
        deadline: Option<u64> = "deadline",
        period: Option<u64> = "period",
    }

    /// The CPUs of an exec before and after it is in the container's cgroup.
    ExecCpuAffinity {
        initial: Option<CpuList> = "initial",
        cpu_affinity_final: Option<CpuList> = "final",
    }
}

words! {
    /// A kind of limit.
    #[derive(Default)]
    PosixRlimitType {
        #[default]
        RlimitCpu = "RLIMIT_CPU",
        RlimitFsize = "RLIMIT_FSIZE",
        RlimitData = "RLIMIT_DATA",
        RlimitStack = "RLIMIT_STACK",
        RlimitCore = "RLIMIT_CORE",
        RlimitRss = "RLIMIT_RSS",
        RlimitNproc = "RLIMIT_NPROC",
        RlimitNofile = "RLIMIT_NOFILE",
        RlimitMemlock = "RLIMIT_MEMLOCK",
        RlimitAs = "RLIMIT_AS",
        RlimitLocks = "RLIMIT_LOCKS",
        RlimitSigpending = "RLIMIT_SIGPENDING",
        RlimitMsgqueue = "RLIMIT_MSGQUEUE",
        RlimitNice = "RLIMIT_NICE",
        RlimitRtprio = "RLIMIT_RTPRIO",
        RlimitRttime = "RLIMIT_RTTIME",
    }

    /// A class of I/O priority.
    #[derive(Default)]
    IOPriorityClass {
        IoprioClassRt = "IOPRIO_CLASS_RT",
        #[default]
        IoprioClassBe = "IOPRIO_CLASS_BE",
        IoprioClassIdle = "IOPRIO_CLASS_IDLE",
    }

    /// A scheduling policy.
    #[derive(Default)]
    LinuxSchedulerPolicy {
        #[default]
        SchedOther = "SCHED_OTHER",
        SchedFifo = "SCHED_FIFO",
        SchedRr = "SCHED_RR",
        SchedBatch = "SCHED_BATCH",
        SchedIso = "SCHED_ISO",
        SchedIdle = "SCHED_IDLE",
        SchedDeadline = "SCHED_DEADLINE",
    }

    /// A flag of a scheduling policy.
    #[derive(Default)]
    LinuxSchedulerFlag {
        #[default]
        SchedResetOnFork = "SCHED_RESET_ON_FORK",
        SchedFlagReclaim = "SCHED_FLAG_RECLAIM",
        SchedFlagDLOverrun = "SCHED_FLAG_DL_OVERRUN",
        SchedFlagKeepPolicy = "SCHED_FLAG_KEEP_POLICY",
        SchedFlagKeepParams = "SCHED_FLAG_KEEP_PARAMS",
        SchedFlagUtilClampMin = "SCHED_FLAG_UTIL_CLAMP_MIN",
        SchedFlagUtilClampMax = "SCHED_FLAG_UTIL_CLAMP_MAX",
    }
}

json_words!(PosixRlimitType, IOPriorityClass, LinuxSchedulerPolicy, LinuxSchedulerFlag);

/// A list of CPUs such as `0-3,7`, checked to have that form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(String);

impl std::ops::Deref for CpuList {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Json for CpuList {
    fn read(value: Value) -> Result<Self, Wrong> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let part =
            |text: &str| text.split_once('-').map_or_else(|| digits(text), |(a, b)| digits(a) && digits(b));
        let text = String::read(value)?;
        match text.split(',').all(part) {
            true => Ok(Self(text)),
            false => Err(Wrong::new(format!("{text:?} is no list of CPUs such as 0-3,7"))),
        }
    }

    fn write(&self) -> Value {
        self.0.write()
    }
}
