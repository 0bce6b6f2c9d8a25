//! Where the holder lives: an empty read-only root, no capability, nobody's ids, no way to gain anything, not even by
//! whoever is allowed to trace it. It is born in namespaces of its own.

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{
    DumpableBehavior, Signal, chdir, pivot_root, set_dumpable_behavior, set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use crate::error::{CallError, Step};

/// What the holder says when it is caged.
pub(super) const SAFE: &str = "caged";

/// The ids of nobody's files.
const NOBODY: u32 = 65_535;

/// Enters, or says which step failed: a holder that is not caged must not live.
pub(super) fn enter() -> Result<(), CallError> {
    empty_root()?;
    drop_privileges()?;
    set_no_new_privs(true).step(|| "set no_new_privs".to_owned())?;
    filter()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step(|| "become undumpable".to_owned())?;
    // Last: a change of ids takes it back.
    set_parent_process_death_signal(Some(Signal::KILL)).step(|| "die with the shim".to_owned())
}

fn empty_root() -> Result<(), CallError> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).step(|| "make mounts private".to_owned())?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("empty", "/proc", "tmpfs", flags, c"size=4k,nr_inodes=2,mode=0555")
        .step(|| "mount an empty root".to_owned())?;
    chdir("/proc").step(|| "enter the empty root".to_owned())?;
    // The old root comes to lie over the new one, and goes.
    pivot_root(".", ".").step(|| "change the root".to_owned())?;
    unmount(".", UnmountFlags::DETACH).step(|| "leave the old root".to_owned())?;
    chdir("/").step(|| "enter the root".to_owned())
}

fn drop_privileges() -> Result<(), CallError> {
    for capability in CapabilitySet::all().iter() {
        // Kernels know fewer than the headers do.
        let _unknown_here = remove_capability_from_bounding_set(capability);
    }
    berth_sys::process::set_ids(NOBODY, NOBODY, Some(&[])).step(|| "become nobody".to_owned())?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).step(|| "drop capabilities".to_owned())?;
    clear_ambient_capability_set().step(|| "drop ambient capabilities".to_owned())
}

/// The calls of the loop, of its way there, and of its end; everything else fails.
const FILTER: &str = r#"{
    "defaultAction": "SCMP_ACT_ERRNO",
    "syscalls": [{
        "action": "SCMP_ACT_ALLOW",
        "names": [
            "prctl", "write", "close", "fcntl", "waitid", "rt_sigprocmask", "rt_sigtimedwait", "rt_sigreturn",
            "rt_sigaction", "restart_syscall", "futex", "munmap", "sigaltstack", "exit", "exit_group"
        ]
    }]
}"#;

fn filter() -> Result<(), CallError> {
    let profile = serde_json::from_slice(FILTER.as_bytes()).map_err(std::io::Error::from);
    let program = profile
        .and_then(|profile| berth_runtime::seccomp::compile(&profile).map_err(std::io::Error::other))
        .step(|| "compile the holder's filter".to_owned())?;
    let listener = berth_sys::seccomp::install(program.bytes(), program.flags());
    listener.step(|| "install the holder's filter".to_owned()).map(drop)
}
