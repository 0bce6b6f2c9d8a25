//! `delete`: what a container held is freed.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use berth_cgroup::CgroupError;
use berth_core::oci::Spec;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::container::{Container, Status, must_be_found_again};
use super::flags::Flag;
use super::store::Place;
use super::{Global, OciError, flags};

const FLAGS: &[Flag] = &[Flag::switch("force", "f")];

/// How long a killed process may take.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let (id, force) = (flags.sole_id()?, flags.is_set("force"));
    must_be_found_again()?;
    let place = Place::of(global, id)?;
    let _lock = match place.lock_if_there()? {
        Some(lock) => lock,
        // There is none, or another call was quicker: that is what was asked for.
        None if force => return Ok(()),
        None => return Err(place.unknown()),
    };
    let container = match place.record() {
        Ok(record) => Container { place, record },
        // Half a container, whose maker was killed.
        Err(_) if force && place.is_unbegun() => return place.remove(),
        Err(error) if force => return Err(lost(&place, &error)),
        Err(error) => return Err(error),
    };
    if !force {
        container.must_be(&[Status::Stopped, Status::Created])?;
    }
    end(&container)?;
    let cgroup = match container.cgroup() {
        Ok(cgroup) => Some(cgroup),
        // systemd removes a scope with its last process.
        Err(OciError::Cgroup(CgroupError::NotFound { .. })) => None,
        Err(error) => return Err(error),
    };
    let spec = match container.later() {
        // Its maker was killed before the configuration was written: nothing was made by it.
        Err(_) if force => Spec::default(),
        other => other?,
    };
    for warning in berth_runtime::delete_parts(container.hooked(&spec), cgroup.as_ref())? {
        global.log.warn(&warning);
    }
    container.place.remove()
}

/// Without its record a container's processes and groups are not known, and who removed its directory would leave them for ever.
fn lost(place: &Place, error: &OciError) -> OciError {
    let dir = place.0.display();
    OciError::State(format!(
        "{error}: the record of the container's process and cgroup is lost; end them by hand (linux.cgroupsPath in {dir}/config.json), \
         then remove {dir}"
    ))
}

/// Kills the first process and waits for its end.
fn end(container: &Container) -> Result<(), OciError> {
    let Some(pidfd) = container.process() else { return Ok(()) };
    berth_runtime::kill(&pidfd, 9)?;
    if let Ok(cgroup) = container.cgroup()
        && cgroup.is_frozen() == Some(true)
    {
        cgroup.thaw()?;
    }
    if ended(&pidfd) {
        return Ok(());
    }
    Err(OciError::State(format!("process {} did not end after SIGKILL", container.record.pid)))
}

/// Waits for the end of a process that was killed; whether it came in time.
pub(crate) fn ended(pidfd: &OwnedFd) -> bool {
    let mut polls = [PollFd::new(pidfd, PollFlags::IN)];
    matches!(rustix::event::poll(&mut polls, Some(&PATIENCE)), Ok(1..))
}
