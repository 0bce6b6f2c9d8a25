//! What a worker gives up before it looks at the first byte from outside.

pub mod filter;

use berth_sys::mount::{self, Change, attr};
use berth_sys::namespace::{Namespaces, unshare};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::io;
use std::os::fd::OwnedFd;

/// What applying a layer needs: owners, modes, devices, file capabilities. No mounts, no network, no other processes.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP);

/// Address space: several times what decoding with the largest window takes.
const MAX_MEMORY: u64 = 1 << 30;

/// Processor time: more than the largest layer takes, and an end to a decoder that turns in circles.
const MAX_SECONDS: u64 = 6 * 3600;

/// The directory again, but as a mount of its own on which no device can be opened and no program run. A kernel that
/// has none of this gives the directory itself.
///
/// # Errors
/// What the kernel refused for another reason.
pub fn without_devices(dir: OwnedFd) -> io::Result<OwnedFd> {
    let unknown =
        [rustix::io::Errno::NOSYS, rustix::io::Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
    let made = mount::clone_tree(&dir, false).and_then(|copy| {
        let set = attr::NODEV | attr::NOEXEC | attr::NOSUID;
        mount::set_attributes(&copy, &Change { set, ..Change::default() }, false)?;
        Ok(copy)
    });
    match made {
        Err(error) if unknown.contains(&error.raw_os_error()) => Ok(dir),
        made => made,
    }
}

/// Makes `root` the root of the calling process: no path leads anywhere else from here on.
fn enter(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root).map_err(named("enter the layer's directory"))?;
    rustix::process::chroot(".").map_err(named("make the layer's directory the root"))
}

/// Confines the calling process, which must have one thread, to the tree at `root`.
///
/// # Errors
/// The step that the kernel refused.
pub fn confine(root: &OwnedFd, max_file: u64) -> io::Result<()> {
    enter(root)?;
    rustix::process::umask(rustix::fs::Mode::empty());
    unshare(Namespaces::NETWORK | Namespaces::IPC)
        .map_err(|error| io::Error::other(format!("leave the network namespace: {error}")))?;
    limit(Resource::Core, 0)?;
    limit(Resource::As, MAX_MEMORY)?;
    limit(Resource::Fsize, max_file)?;
    limit(Resource::Cpu, MAX_SECONDS)?;
    drop_capabilities().map_err(named("drop capabilities"))?;
    set_no_new_privs(true).map_err(named("set no_new_privs"))?;
    // A kernel without seccomp still has all the rest.
    match berth_sys::seccomp::install(&filter::program(), 0) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::NOSYS.raw_os_error()) => {
            Err(io::Error::other(format!("install the system call filter: {error}")))
        }
        _ => Ok(()),
    }
}

fn named(step: &'static str) -> impl FnOnce(rustix::io::Errno) -> io::Error {
    move |errno| io::Error::other(format!("{step}: {errno}"))
}

/// Lowers a limit, never above what is allowed already.
fn limit(resource: Resource, wanted: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let wanted = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let limit = Rlimit { current: Some(wanted), maximum: Some(wanted) };
    setrlimit(resource, limit).map_err(named("lower a resource limit"))
}

fn drop_capabilities() -> rustix::io::Result<()> {
    let had = rustix::thread::capabilities(None)?;
    for capability in had.permitted.difference(KEPT).iter() {
        remove_capability_from_bounding_set(capability)?;
    }
    let kept = had.permitted.intersection(KEPT);
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
}
