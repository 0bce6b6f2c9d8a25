//! delete: what a container holds is freed.

use crate::args::{Created, Hooked};
use crate::error::Error;
use crate::hooks;

/// Kills what is left of a container and removes its cgroup and its class of service. Can be repeated; the first process is
/// the caller's to reap.
///
/// Gives what went wrong without being a reason to fail: a poststop hook.
///
/// # Errors
/// The cgroup cannot be emptied or removed, or the class of service.
pub fn delete(created: &Created) -> Result<Vec<String>, Error> {
    crate::kill(&created.pidfd, 9)?;
    delete_parts(created.context.hooked(), Some(&created.cgroup))
}

/// As [`delete`], for a container known by its parts; a cgroup that is gone already is none.
///
/// # Errors
/// As [`delete`].
pub fn delete_parts(of: Hooked<'_>, cgroup: Option<&berth_cgroup::Cgroup>) -> Result<Vec<String>, Error> {
    if let Some(cgroup) = cgroup {
        let left = cgroup.procs().unwrap_or_default();
        if !left.is_empty() {
            cgroup.kill()?;
        }
        cgroup.delete()?;
    }
    crate::rdt::remove(of.spec, of.id)?;
    let Some(list) = of.spec.hooks().as_ref().and_then(|h| h.poststop().as_ref()) else {
        return Ok(Vec::new());
    };
    let state = hooks::state_text(of.id, "stopped", None, of.bundle, of.spec);
    // The container is gone whatever a hook says, and every hook is run.
    let failed =
        list.iter().filter_map(|hook| hooks::run_all("poststop", std::slice::from_ref(hook), &state).err());
    Ok(failed.map(|error| error.to_string()).collect())
}
