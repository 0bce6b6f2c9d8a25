//! What only Linux has: namespaces, devices, and the rest of `linux`.

use super::record::{json_words, record, words};
use super::resources::LinuxResources;
use super::seccomp::LinuxSeccomp;
use std::collections::BTreeMap;
use std::path::PathBuf;

record! {
    /// `linux`.
    Linux {
        net_devices: Option<BTreeMap<String, LinuxNetDevice>> = "netDevices",
        uid_mappings: Option<Vec<LinuxIdMapping>> = "uidMappings",
        gid_mappings: Option<Vec<LinuxIdMapping>> = "gidMappings",
        sysctl: Option<BTreeMap<String, String>> = "sysctl",
        resources: Option<LinuxResources> = "resources",
        cgroups_path: Option<PathBuf> = "cgroupsPath",
        namespaces: Option<Vec<LinuxNamespace>> = "namespaces",
        devices: Option<Vec<LinuxDevice>> = "devices",
        seccomp: Option<LinuxSeccomp> = "seccomp",
        rootfs_propagation: Option<String> = "rootfsPropagation",
        masked_paths: Option<Vec<String>> = "maskedPaths",
        readonly_paths: Option<Vec<String>> = "readonlyPaths",
        mount_label: Option<String> = "mountLabel",
        intel_rdt: Option<LinuxIntelRdt> = "intelRdt",
        memory_policy: Option<LinuxMemoryPolicy> = "memoryPolicy",
        personality: Option<LinuxPersonality> = "personality",
        time_offsets: Option<BTreeMap<String, LinuxTimeOffset>> = "timeOffsets",
    }

    /// A range of ids inside and the one outside that it stands for.
    #[derive(Copy)]
    LinuxIdMapping {
        host_id: u32 = "hostID" copy default,
        container_id: u32 = "containerID" copy default,
        size: u32 = "size" copy default,
    }

    /// A network device that is moved into the container.
    LinuxNetDevice {
        name: Option<String> = "name",
    }

    /// A namespace: a new one, or that of a path.
    LinuxNamespace {
        typ: LinuxNamespaceType = "type" copy,
        path: Option<PathBuf> = "path",
    }

    /// A device node.
    LinuxDevice {
        path: PathBuf = "path" default,
        typ: LinuxDeviceType = "type" copy,
        major: i64 = "major" copy default,
        minor: i64 = "minor" copy default,
        file_mode: Option<u32> = "fileMode" copy,
        uid: Option<u32> = "uid" copy,
        gid: Option<u32> = "gid" copy,
    }

    /// Cache and memory bandwidth of Intel's resource director.
    LinuxIntelRdt {
        clos_id: Option<String> = "closID",
        schemata: Option<Vec<String>> = "schemata",
        l3_cache_schema: Option<String> = "l3CacheSchema",
        mem_bw_schema: Option<String> = "memBwSchema",
        enable_cmt: Option<bool> = "enableCMT",
        enable_mbm: Option<bool> = "enableMBM",
        enable_monitoring: Option<bool> = "enableMonitoring",
    }

    /// Where memory comes from.
    LinuxMemoryPolicy {
        mode: MemoryPolicyModeType = "mode" copy,
        nodes: Option<String> = "nodes",
        flags: Option<Vec<MemoryPolicyFlagType>> = "flags",
    }

    /// The execution domain.
    LinuxPersonality {
        domain: LinuxPersonalityDomain = "domain" copy,
        flags: Option<Vec<String>> = "flags",
    }

    /// An offset of a clock.
    LinuxTimeOffset {
        secs: Option<i64> = "secs" copy,
        nanosecs: Option<u32> = "nanosecs" copy,
    }
}

words! {
    /// A kind of namespace.
    #[derive(Default)]
    LinuxNamespaceType {
        Mount = "mount",
        Cgroup = "cgroup",
        Uts = "uts",
        Ipc = "ipc",
        User = "user",
        #[default]
        Pid = "pid",
        Network = "network",
        Time = "time",
    }

    /// A kind of device.
    #[derive(Default)]
    LinuxDeviceType {
        #[default]
        A = "a",
        B = "b",
        C = "c",
        U = "u",
        P = "p",
    }

    /// An execution domain.
    #[derive(Default)]
    LinuxPersonalityDomain {
        #[default]
        PerLinux = "LINUX",
        PerLinux32 = "LINUX32",
    }

    /// A mode of the memory policy.
    #[derive(Default)]
    MemoryPolicyModeType {
        #[default]
        MpolDefault = "MPOL_DEFAULT",
        MpolBind = "MPOL_BIND",
        MpolInterleave = "MPOL_INTERLEAVE",
        MpolWeightedInterleave = "MPOL_WEIGHTED_INTERLEAVE",
        MpolPreferred = "MPOL_PREFERRED",
        MpolPreferredMany = "MPOL_PREFERRED_MANY",
        MpolLocal = "MPOL_LOCAL",
    }

    /// A flag of the memory policy.
    MemoryPolicyFlagType {
        MpolFNumaBalancing = "MPOL_F_NUMA_BALANCING",
        MpolFRelativeNodes = "MPOL_F_RELATIVE_NODES",
        MpolFStaticNodes = "MPOL_F_STATIC_NODES",
    }
}

json_words!(
    LinuxNamespaceType,
    LinuxDeviceType,
    LinuxPersonalityDomain,
    MemoryPolicyModeType,
    MemoryPolicyFlagType,
);
