//! What a container is asked for in the words of the OCI runtime specification 1.3, as far as Linux goes: config.json
//! and its parts. Members that nobody here knows are passed over; a value of a wrong kind is refused with its place.
//!
//! Own types because there is one shim for each pod: all of them are read and written by way of one tree of values, so
//! that the code for each is small, and the place in an error costs nothing where there is none.

mod capability;
mod json;
mod linux;
mod process;
mod record;
mod resources;
mod seccomp;
mod spec;

pub use capability::{Capabilities, Capability, LinuxCapabilities};
pub use linux::{
    Linux, LinuxDevice, LinuxDeviceType, LinuxIdMapping, LinuxIntelRdt, LinuxMemoryPolicy, LinuxNamespace,
    LinuxNamespaceType, LinuxNetDevice, LinuxPersonality, LinuxPersonalityDomain, LinuxTimeOffset,
    MemoryPolicyFlagType, MemoryPolicyModeType,
};
pub use process::{
    ConsoleSize, CpuList, ExecCpuAffinity, IOPriorityClass, LinuxIOPriority, LinuxSchedulerFlag,
    LinuxSchedulerPolicy, PosixRlimit, PosixRlimitType, Process, Scheduler, User,
};
pub use resources::{
    LinuxBlockIo, LinuxCpu, LinuxDeviceCgroup, LinuxHugepageLimit, LinuxInterfacePriority, LinuxMemory,
    LinuxNetwork, LinuxPids, LinuxRdma, LinuxResources, LinuxThrottleDevice, LinuxWeightDevice,
};
pub use seccomp::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompFilterFlag, LinuxSeccompOperator,
    LinuxSyscall,
};
pub use spec::{Hook, Hooks, Mount, Root, Spec};

/// The version of the specification that this is.
pub const VERSION: &str = "1.3.0";

#[cfg(test)]
mod tests;
