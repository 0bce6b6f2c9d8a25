//! Limits and rules that a cgroup keeps.

use super::linux::LinuxDeviceType;
use super::record::record;
use std::collections::BTreeMap;
use std::fmt;

record! {
    /// `linux.resources`.
    LinuxResources {
        devices: Option<Vec<LinuxDeviceCgroup>> = "devices",
        memory: Option<LinuxMemory> = "memory",
        cpu: Option<LinuxCpu> = "cpu",
        pids: Option<LinuxPids> = "pids",
        block_io: Option<LinuxBlockIo> = "blockIO",
        hugepage_limits: Option<Vec<LinuxHugepageLimit>> = "hugepageLimits",
        network: Option<LinuxNetwork> = "network",
        rdma: Option<BTreeMap<String, LinuxRdma>> = "rdma",
        unified: Option<BTreeMap<String, String>> = "unified",
    }

    /// Devices that may or may not be used.
    LinuxDeviceCgroup {
        allow: bool = "allow" copy default,
        typ: Option<LinuxDeviceType> = "type" copy,
        major: Option<i64> = "major" copy,
        minor: Option<i64> = "minor" copy,
        access: Option<String> = "access",
    }

    /// Memory.
    #[derive(Copy)]
    LinuxMemory {
        limit: Option<i64> = "limit" copy,
        reservation: Option<i64> = "reservation" copy,
        swap: Option<i64> = "swap" copy,
        kernel: Option<i64> = "kernel" copy,
        kernel_tcp: Option<i64> = "kernelTCP" copy,
        swappiness: Option<u64> = "swappiness" copy,
        disable_oom_killer: Option<bool> = "disableOOMKiller" copy,
        use_hierarchy: Option<bool> = "useHierarchy" copy,
        check_before_update: Option<bool> = "checkBeforeUpdate" copy,
    }

    /// Processors.
    LinuxCpu {
        shares: Option<u64> = "shares" copy,
        quota: Option<i64> = "quota" copy,
        idle: Option<i64> = "idle" copy,
        burst: Option<u64> = "burst" copy,
        period: Option<u64> = "period" copy,
        realtime_runtime: Option<i64> = "realtimeRuntime" copy,
        realtime_period: Option<u64> = "realtimePeriod" copy,
        cpus: Option<String> = "cpus",
        mems: Option<String> = "mems",
    }

    /// Processes.
    #[derive(Copy)]
    LinuxPids {
        limit: i64 = "limit" copy default,
    }

    /// A block device's weight.
    #[derive(Copy)]
    LinuxWeightDevice {
        major: i64 = "major" copy default,
        minor: i64 = "minor" copy default,
        weight: Option<u16> = "weight" copy,
        leaf_weight: Option<u16> = "leafWeight" copy,
    }

    /// A block device's highest rate.
    #[derive(Copy)]
    LinuxThrottleDevice {
        major: i64 = "major" copy default,
        minor: i64 = "minor" copy default,
        rate: u64 = "rate" copy default,
    }

    /// Block devices.
    LinuxBlockIo {
        weight: Option<u16> = "weight" copy,
        leaf_weight: Option<u16> = "leafWeight" copy,
        weight_device: Option<Vec<LinuxWeightDevice>> = "weightDevice",
        throttle_read_bps_device: Option<Vec<LinuxThrottleDevice>> = "throttleReadBpsDevice",
        throttle_write_bps_device: Option<Vec<LinuxThrottleDevice>> = "throttleWriteBpsDevice",
        throttle_read_iops_device: Option<Vec<LinuxThrottleDevice>> = "throttleReadIOPSDevice",
        throttle_write_iops_device: Option<Vec<LinuxThrottleDevice>> = "throttleWriteIOPSDevice",
    }

    /// Huge pages of a size.
    LinuxHugepageLimit {
        page_size: String = "pageSize" default,
        limit: i64 = "limit" copy default,
    }

    /// The priority of an interface.
    LinuxInterfacePriority {
        name: String = "name" default,
        priority: u32 = "priority" copy default,
    }

    /// The network classes of v1.
    LinuxNetwork {
        class_id: Option<u32> = "classID" copy,
        priorities: Option<Vec<LinuxInterfacePriority>> = "priorities",
    }

    /// Handles of a remote memory device.
    LinuxRdma {
        hca_handles: Option<u32> = "hcaHandles" copy,
        hca_objects: Option<u32> = "hcaObjects" copy,
    }
}

/// As the kernel writes it: `c 1:* rwm`.
impl fmt::Display for LinuxDeviceCgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: Option<i64>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
        let access = self.access.as_deref().unwrap_or_default();
        write!(f, "{} {}:{} {access}", self.typ.unwrap_or_default(), number(self.major), number(self.minor))
    }
}
