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
    /// A capability. Written with `CAP_` in JSON, without as a text.
    Capability {
        AuditControl = "AUDIT_CONTROL",
        AuditRead = "AUDIT_READ",
        AuditWrite = "AUDIT_WRITE",
        BlockSuspend = "BLOCK_SUSPEND",
        Bpf = "BPF",
        CheckpointRestore = "CHECKPOINT_RESTORE",
        Chown = "CHOWN",
        DacOverride = "DAC_OVERRIDE",
        DacReadSearch = "DAC_READ_SEARCH",
        Fowner = "FOWNER",
        Fsetid = "FSETID",
        IpcLock = "IPC_LOCK",
        IpcOwner = "IPC_OWNER",
        Kill = "KILL",
        Lease = "LEASE",
        LinuxImmutable = "LINUX_IMMUTABLE",
        MacAdmin = "MAC_ADMIN",
        MacOverride = "MAC_OVERRIDE",
        Mknod = "MKNOD",
        NetAdmin = "NET_ADMIN",
        NetBindService = "NET_BIND_SERVICE",
        NetBroadcast = "NET_BROADCAST",
        NetRaw = "NET_RAW",
        Perfmon = "PERFMON",
        Setgid = "SETGID",
        Setfcap = "SETFCAP",
        Setpcap = "SETPCAP",
        Setuid = "SETUID",
        SysAdmin = "SYS_ADMIN",
        SysBoot = "SYS_BOOT",
        SysChroot = "SYS_CHROOT",
        SysModule = "SYS_MODULE",
        SysNice = "SYS_NICE",
        SysPacct = "SYS_PACCT",
        SysPtrace = "SYS_PTRACE",
        SysRawio = "SYS_RAWIO",
        SysResource = "SYS_RESOURCE",
        SysTime = "SYS_TIME",
        SysTtyConfig = "SYS_TTY_CONFIG",
        Syslog = "SYSLOG",
        WakeAlarm = "WAKE_ALARM",
    }
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
