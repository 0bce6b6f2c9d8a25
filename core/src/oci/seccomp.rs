//! A seccomp profile.

use super::record::{json_words, record, words};
use std::path::PathBuf;

record! {
    /// The whole profile.
    LinuxSeccomp {
        default_action: LinuxSeccompAction = "defaultAction" copy,
        default_errno_ret: Option<u32> = "defaultErrnoRet" copy,
        architectures: Option<Vec<Arch>> = "architectures",
        flags: Option<Vec<LinuxSeccompFilterFlag>> = "flags",
        listener_path: Option<PathBuf> = "listenerPath",
        listener_metadata: Option<String> = "listenerMetadata",
        syscalls: Option<Vec<LinuxSyscall>> = "syscalls",
    }

    /// What is answered to some calls.
    LinuxSyscall {
        names: Vec<String> = "names",
        action: LinuxSeccompAction = "action" copy,
        errno_ret: Option<u32> = "errnoRet" copy,
        args: Option<Vec<LinuxSeccompArg>> = "args",
    }

    /// A condition on an argument.
    #[derive(Copy)]
    LinuxSeccompArg {
        index: usize = "index" copy,
        value: u64 = "value" copy,
        value_two: Option<u64> = "valueTwo" copy,
        op: LinuxSeccompOperator = "op" copy,
    }
}

words! {
    /// An answer.
    #[derive(Default)]
    LinuxSeccompAction {
        ScmpActKill = "SCMP_ACT_KILL",
        ScmpActKillThread = "SCMP_ACT_KILL_THREAD",
        ScmpActKillProcess = "SCMP_ACT_KILL_PROCESS",
        ScmpActTrap = "SCMP_ACT_TRAP",
        ScmpActErrno = "SCMP_ACT_ERRNO",
        ScmpActNotify = "SCMP_ACT_NOTIFY",
        ScmpActTrace = "SCMP_ACT_TRACE",
        ScmpActLog = "SCMP_ACT_LOG",
        #[default]
        ScmpActAllow = "SCMP_ACT_ALLOW",
    }

    /// A calling convention.
    Arch {
        ScmpArchNative = "SCMP_ARCH_NATIVE",
        ScmpArchX86 = "SCMP_ARCH_X86",
        ScmpArchX86_64 = "SCMP_ARCH_X86_64",
        ScmpArchX32 = "SCMP_ARCH_X32",
        ScmpArchArm = "SCMP_ARCH_ARM",
        ScmpArchAarch64 = "SCMP_ARCH_AARCH64",
        ScmpArchMips = "SCMP_ARCH_MIPS",
        ScmpArchMips64 = "SCMP_ARCH_MIPS64",
        ScmpArchMips64n32 = "SCMP_ARCH_MIPS64N32",
        ScmpArchMipsel = "SCMP_ARCH_MIPSEL",
        ScmpArchMipsel64 = "SCMP_ARCH_MIPSEL64",
        ScmpArchMipsel64n32 = "SCMP_ARCH_MIPSEL64N32",
        ScmpArchPpc = "SCMP_ARCH_PPC",
        ScmpArchPpc64 = "SCMP_ARCH_PPC64",
        ScmpArchPpc64le = "SCMP_ARCH_PPC64LE",
        ScmpArchS390 = "SCMP_ARCH_S390",
        ScmpArchS390x = "SCMP_ARCH_S390X",
        ScmpArchParisc = "SCMP_ARCH_PARISC",
        ScmpArchParisc64 = "SCMP_ARCH_PARISC64",
        ScmpArchRiscv64 = "SCMP_ARCH_RISCV64",
        ScmpArchLoongarch64 = "SCMP_ARCH_LOONGARCH64",
        ScmpArchM68k = "SCMP_ARCH_M68K",
        ScmpArchSh = "SCMP_ARCH_SH",
        ScmpArchSheb = "SCMP_ARCH_SHEB",
    }

    /// A flag of the filter.
    LinuxSeccompFilterFlag {
        SeccompFilterFlagLog = "SECCOMP_FILTER_FLAG_LOG",
        SeccompFilterFlagTsync = "SECCOMP_FILTER_FLAG_TSYNC",
        SeccompFilterFlagSpecAllow = "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
        SeccompFilterFlagWaitKillableRecv = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
    }

    /// A comparison.
    #[derive(Default)]
    LinuxSeccompOperator {
        ScmpCmpNe = "SCMP_CMP_NE",
        ScmpCmpLt = "SCMP_CMP_LT",
        ScmpCmpLe = "SCMP_CMP_LE",
        #[default]
        ScmpCmpEq = "SCMP_CMP_EQ",
        ScmpCmpGe = "SCMP_CMP_GE",
        ScmpCmpGt = "SCMP_CMP_GT",
        ScmpCmpMaskedEq = "SCMP_CMP_MASKED_EQ",
    }
}

json_words!(LinuxSeccompAction, Arch, LinuxSeccompFilterFlag, LinuxSeccompOperator);
