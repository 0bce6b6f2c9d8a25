//! CPU affinity, scheduling, I/O priority: before the change of user, which takes the right to them away.

use berth_core::oci::{IOPriorityClass, LinuxSchedulerFlag, LinuxSchedulerPolicy, Process};

use crate::error::{At, Failure};

pub(super) fn apply(process: &Process) -> Result<(), Failure> {
    // What the daemon's own unit is pinned to must not stick to containers; the cpuset alone decides. A kernel that
    // refuses the whole mask leaves things as they were.
    let _ = berth_sys::process::set_affinity(None);
    if let Some(affinity) = process.exec_cpu_affinity().as_ref().and_then(|a| a.cpu_affinity_final().clone())
        && let Some(mask) = crate::limit::cpu_mask(&affinity)
    {
        berth_sys::process::set_affinity(Some(&mask)).step("set CPU affinity")?;
    }
    if let Some(priority) = process.io_priority() {
        let class = match priority.class() {
            IOPriorityClass::IoprioClassRt => 1,
            IOPriorityClass::IoprioClassBe => 2,
            IOPriorityClass::IoprioClassIdle => 3,
        };
        berth_sys::process::set_io_priority(class, priority.priority() as u8).step("set I/O priority")?;
    }
    scheduler(process)
}

fn scheduler(process: &Process) -> Result<(), Failure> {
    let Some(scheduler) = process.scheduler() else { return Ok(()) };
    let policy = match scheduler.policy() {
        LinuxSchedulerPolicy::SchedOther => 0,
        LinuxSchedulerPolicy::SchedFifo => 1,
        LinuxSchedulerPolicy::SchedRr => 2,
        LinuxSchedulerPolicy::SchedBatch => 3,
        LinuxSchedulerPolicy::SchedIso => 4,
        LinuxSchedulerPolicy::SchedIdle => 5,
        LinuxSchedulerPolicy::SchedDeadline => 6,
    };
    let flags = scheduler.flags().as_deref().unwrap_or_default().iter().fold(0, |bits, flag| {
        bits | match flag {
            LinuxSchedulerFlag::SchedResetOnFork => 0x01,
            LinuxSchedulerFlag::SchedFlagReclaim => 0x02,
            LinuxSchedulerFlag::SchedFlagDLOverrun => 0x04,
            LinuxSchedulerFlag::SchedFlagKeepPolicy => 0x08,
            LinuxSchedulerFlag::SchedFlagKeepParams => 0x10,
            LinuxSchedulerFlag::SchedFlagUtilClampMin => 0x20,
            LinuxSchedulerFlag::SchedFlagUtilClampMax => 0x40,
        }
    });
    let mut order = berth_sys::process::Scheduling::default();
    order.policy = policy;
    order.flags = flags;
    order.nice = scheduler.nice().unwrap_or(0);
    order.priority = scheduler.priority().unwrap_or(0) as u32;
    order.runtime = scheduler.runtime().unwrap_or(0);
    order.deadline = scheduler.deadline().unwrap_or(0);
    order.period = scheduler.period().unwrap_or(0);
    berth_sys::process::set_scheduling(order).step("set scheduling policy")
}
