//! Capabilities by name.

use super::json::{Json, Wrong};
use super::record::{record, words};
use serde_json::Value;
use std::collections::BTreeSet;
use std::str::FromStr;

/// A set of them.
pub type Capabilities = BTreeSet<Capability>;

record! {
    /// The five sets of a process.
    LinuxCapabilities {
        bounding: Option<Capabilities> = "bounding",
        effective: Option<Capabilities> = "effective",
        inheritable: Option<Capabilities> = "inheritable",
        permitted: Option<Capabilities> = "permitted",
        ambient: Option<Capabilities> = "ambient",
    }
}

words! {
    /// A capability, in the order of their numbers in linux/capability.h. Written with `CAP_` in JSON, without as a text.
    Capability {
        Chown = "CHOWN",
        DacOverride = "DAC_OVERRIDE",
        DacReadSearch = "DAC_READ_SEARCH",
        Fowner = "FOWNER",
        Fsetid = "FSETID",
        Kill = "KILL",
        Setgid = "SETGID",
        Setuid = "SETUID",
        Setpcap = "SETPCAP",
        LinuxImmutable = "LINUX_IMMUTABLE",
        NetBindService = "NET_BIND_SERVICE",
        NetBroadcast = "NET_BROADCAST",
        NetAdmin = "NET_ADMIN",
        NetRaw = "NET_RAW",
        IpcLock = "IPC_LOCK",
        IpcOwner = "IPC_OWNER",
        SysModule = "SYS_MODULE",
        SysRawio = "SYS_RAWIO",
        SysChroot = "SYS_CHROOT",
        SysPtrace = "SYS_PTRACE",
        SysPacct = "SYS_PACCT",
        SysAdmin = "SYS_ADMIN",
        SysBoot = "SYS_BOOT",
        SysNice = "SYS_NICE",
        SysResource = "SYS_RESOURCE",
        SysTime = "SYS_TIME",
        SysTtyConfig = "SYS_TTY_CONFIG",
        Mknod = "MKNOD",
        Lease = "LEASE",
        AuditWrite = "AUDIT_WRITE",
        AuditControl = "AUDIT_CONTROL",
        Setfcap = "SETFCAP",
        MacOverride = "MAC_OVERRIDE",
        MacAdmin = "MAC_ADMIN",
        Syslog = "SYSLOG",
        WakeAlarm = "WAKE_ALARM",
        BlockSuspend = "BLOCK_SUSPEND",
        AuditRead = "AUDIT_READ",
        Perfmon = "PERFMON",
        Bpf = "BPF",
        CheckpointRestore = "CHECKPOINT_RESTORE",
    }
}

impl Capability {
    /// The names without `CAP_`, each at its number.
    pub const NAMES: &[&str] = Self::WORDS;
}

impl FromStr for Capability {
    type Err = String;

    /// Takes the name in any case, with `CAP_` or without.
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_uppercase();
        let mut short = upper.as_str();
        while let Some(rest) = short.strip_prefix("CAP_") {
            short = rest;
        }
        Self::from_word(short).ok_or_else(|| format!("{text:?} is no capability"))
    }
}

impl Json for Capability {
    fn read(value: Value) -> Result<Self, Wrong> {
        String::read(value)?.parse().map_err(Wrong::new)
    }

    fn write(&self) -> Value {
        Value::String(format!("CAP_{self}"))
    }
}
