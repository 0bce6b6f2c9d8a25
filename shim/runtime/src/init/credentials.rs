//! Ids and capabilities: from the runtime's to the program's.

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::args::ResolvedUser;
use crate::capability::{self, Sets};
use crate::error::{At, Failure};

/// Takes on the user and the capabilities. With `keep_admin` CAP_SYS_ADMIN stays until [`finish`], for a filter to be installed.
pub(super) fn apply(
    user: &ResolvedUser,
    asked: Sets,
    keep_admin: bool,
    user_namespace: bool,
    warnings: &mut Vec<String>,
) -> Result<Sets, Failure> {
    let host = rustix::thread::capabilities(None).step("read capabilities")?.permitted.bits();
    let sets = asked.within(host);
    let missing = asked.union() & !host;
    if missing != 0 {
        warnings.push(format!("the runtime itself lacks these capabilities: {}", capability::names(missing)));
    }
    bound(sets.bounding)?;
    rustix::thread::set_keep_capabilities(true).step("keep capabilities over the change of user")?;
    change_ids(user, user_namespace)
        .step("change user")
        .map_err(|f| f.note(format!("uid {}, gid {}", user.uid, user.gid)))?;
    rustix::thread::set_keep_capabilities(false).step("keep capabilities over the change of user")?;
    let extra = if keep_admin { host & capability::SYS_ADMIN } else { 0 };
    set(Sets { permitted: sets.permitted | extra, effective: sets.effective | extra, ..sets })?;
    if keep_admin { Ok(sets) } else { ambient(sets.ambient).map(|()| sets) }
}

/// In a user namespace that was made without privilege the list of groups cannot be changed: there an empty one is forgone. The
/// kernel alone is asked; what a file in the container says about it does not matter.
fn change_ids(user: &ResolvedUser, user_namespace: bool) -> std::io::Result<()> {
    match berth_sys::process::set_ids(user.uid, user.gid, Some(&user.groups)) {
        Err(error)
            if user_namespace
                && user.groups.is_empty()
                && error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) =>
        {
            berth_sys::process::set_ids(user.uid, user.gid, None)
        }
        other => other,
    }
}

/// Drops what was kept for the filter.
pub(super) fn finish(sets: Sets) -> Result<(), Failure> {
    set(sets)?;
    ambient(sets.ambient)
}

fn set(sets: Sets) -> Result<(), Failure> {
    let order = CapabilitySets {
        effective: CapabilitySet::from_bits_retain(sets.effective),
        permitted: CapabilitySet::from_bits_retain(sets.permitted),
        inheritable: CapabilitySet::from_bits_retain(sets.inheritable),
    };
    rustix::thread::set_capabilities(None, order).step("set capabilities")
}

/// Drops everything else from the bounding set.
fn bound(keep: u64) -> Result<(), Failure> {
    for number in 0..64 {
        if keep & (1 << number) != 0 {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
            1 << number,
        )) {
            Ok(()) => {}
            // Past the last one that this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(errno) => return Err(errno).step("drop a capability from the bounding set"),
        }
    }
    Ok(())
}

fn ambient(bits: u64) -> Result<(), Failure> {
    rustix::thread::clear_ambient_capability_set().step("clear ambient capabilities")?;
    for number in (0..64).filter(|n| bits & (1 << n) != 0) {
        let one = CapabilitySet::from_bits_retain(1 << number);
        rustix::thread::configure_capability_in_ambient_set(one, true)
            .step("raise an ambient capability")
            .map_err(|f| f.note("an ambient capability has to be permitted and inheritable as well"))?;
    }
    Ok(())
}
