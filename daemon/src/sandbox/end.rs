//! The steps that unmake a sandbox. Each succeeds where nothing is left to do, so that all can be tried again.

use super::{SandboxNetwork, SandboxRecord, shm};
use crate::blocking::Room;
use crate::gc::leftover;
use crate::pod::{Error, Ground, Row, faults};
use crate::supervisor::{self, Shim};
use berth_cgroup::{Cgroup, CgroupPath, Driver};
use berth_network::Netns;
use berth_network::cni::leftover::{Failures, Leftover, Next};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// File in the pod's directory that says where its network namespace is pinned.
const PIN_NOTE: &str = "netns";

/// Detaches the network and ends the shim. Gives the network as it is afterwards; a failed detachment keeps it, so
/// that the next try has what it needs.
pub(crate) async fn tear_down(
    ground: &Arc<Ground>,
    record: &Arc<SandboxRecord>,
    shim: Option<&Shim>,
) -> (SandboxNetwork, Result<(), Error>) {
    if let Err(fault) = faults::STOP_BEGUN.pass() {
        return (record.network.clone(), Err(Error::step("stop sandbox", &fault)));
    }
    let (network, shim) = tokio::join!(detach(ground, record), end_shim(ground, record, shim));
    let (network, detached) = network;
    let result = detached
        .and(shim)
        .and_then(|()| faults::STOP_NETWORK.pass().map_err(|fault| Error::step("stop sandbox", &fault)));
    (network, result)
}

/// Detaches the network. One that cannot be detached, and never will be, goes to the leftovers, and the pod may go.
async fn detach(ground: &Arc<Ground>, record: &SandboxRecord) -> (SandboxNetwork, Result<(), Error>) {
    let SandboxNetwork::Own { netns, attachment, failures } = record.network.clone() else {
        return (record.network.clone(), Ok(()));
    };
    let (base, id) = (Arc::clone(ground), record.id);
    let detached = ground.block_in(Room::Detach, "detach the network", move || {
        let failed = attachment.as_ref().and_then(|attachment| base.network.teardown(attachment).err());
        let (Some(error), Some(attachment)) = (failed, attachment) else { return Ok(released(&netns)) };
        let failures = Failures::note(failures.as_ref(), leftover::now(), &error);
        match failures.next(!Netns::is_pinned(&netns)) {
            Next::Park => {
                leftover::park(&base, id, Leftover { attachment: *attachment, failures })?;
                Ok(released(&netns))
            }
            Next::Tell => {
                let network =
                    SandboxNetwork::Own { netns, attachment: Some(attachment), failures: Some(failures) };
                Ok((network, Err(Error::step("detach the pod's network", &error))))
            }
        }
    });
    detached.await.unwrap_or_else(|error| (record.network.clone(), Err(error)))
}

fn released(netns: &Path) -> (SandboxNetwork, Result<(), Error>) {
    match Netns::remove(netns) {
        Ok(()) => (SandboxNetwork::Released, Ok(())),
        Err(error) => {
            let (netns, error) = (netns.to_owned(), Error::internal("remove the network namespace", error));
            (SandboxNetwork::Own { netns, attachment: None, failures: None }, Err(error))
        }
    }
}

async fn end_shim(ground: &Arc<Ground>, record: &SandboxRecord, shim: Option<&Shim>) -> Result<(), Error> {
    match shim {
        Some(shim) => supervisor::end(shim, record.id).await,
        None => supervisor::end_at(&ground.paths(record.id), record.id, record.shim_pid()).await,
    }
}

/// Removes everything but the record, then the record.
///
/// # Errors
/// The step that failed; the others have been tried.
pub(crate) async fn unmake(ground: &Arc<Ground>, record: &Arc<SandboxRecord>) -> Result<(), Error> {
    let fault = |fault| Error::step("remove sandbox", &fault);
    faults::REMOVE_BEGUN.pass().map_err(fault)?;
    end_shim(ground, record, None).await?;
    remove_files(ground, record).await?;
    faults::REMOVE_FILES.pass().map_err(fault)?;
    ground.save(vec![Row::NoSandbox(record.id)]).await
}

/// The pod's directory, its shared memory and its cgroup.
pub(super) async fn remove_files(ground: &Arc<Ground>, record: &Arc<SandboxRecord>) -> Result<(), Error> {
    let (base, record) = (Arc::clone(ground), Arc::clone(record));
    let removed = ground.block("remove the sandbox's files", move || {
        let paths = base.paths(record.id);
        let swept = sweep(&paths.dir);
        let socket = std::fs::remove_file(&paths.socket);
        let cgroup = remove_cgroup(&base, &record);
        match socket {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::internal(format!("remove {}", paths.socket.display()), error))
            }
            _ => swept.and(cgroup),
        }
    });
    removed.await
}

/// Notes in the pod's directory where its network namespace will be pinned, for whoever finds the directory when the
/// record is gone or cannot be read.
pub(super) fn note_pin(dir: &Path, netns: &Path) -> Result<(), Error> {
    let note = dir.join(PIN_NOTE);
    let written = std::fs::write(&note, netns.as_os_str().as_bytes());
    written.map_err(|error| Error::file(format!("note the network namespace in {}", note.display()), &error))
}

/// Removes the pin that a directory notes, if it bears this daemon's mark.
fn unpin_noted(dir: &Path) -> Result<(), Error> {
    let Ok(noted) = std::fs::read(dir.join(PIN_NOTE)) else { return Ok(()) };
    let pin = Path::new(OsStr::from_bytes(&noted));
    let marked = pin.file_name().is_some_and(|name| name.as_bytes().starts_with(b"berth-"));
    match pin.is_absolute() && marked {
        true => Netns::remove(pin).map_err(|error| Error::internal("remove the network namespace", error)),
        false => Ok(()),
    }
}

/// Removes a pod's directory with the shared memory in it, and the network namespace that it notes; what is missing is
/// no error. Blocking.
///
/// # Errors
/// Something else is mounted in it, or a system call failed.
pub(crate) fn sweep(dir: &Path) -> Result<(), Error> {
    unpin_noted(dir)?;
    shm::remove(&dir.join("shm"))?;
    berth_snapshot::remove::tree(dir)
        .map_err(|error| Error::internal("remove the sandbox's directory", error))
}

/// The sandbox's own cgroup: empty, there for those who look for it by the sandbox's id. systemd makes no scope
/// without a process, so under it there is none.
pub(super) fn make_cgroup(ground: &Ground, record: &SandboxRecord) -> Result<(), Error> {
    let Some(path) = leaf(record)? else { return Ok(()) };
    let _alone = ground.default_parent.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = berth_core::oci::LinuxResources::default();
    let made = Cgroup::create(&ground.hierarchies, &path, &limits);
    made.map(drop).map_err(|error| Error::internal("make the sandbox's cgroup", error))
}

fn remove_cgroup(ground: &Ground, record: &SandboxRecord) -> Result<(), Error> {
    let Some(path) = leaf(record)? else { return Ok(()) };
    match Cgroup::open(&ground.hierarchies, &path) {
        Ok(cgroup) => {
            cgroup.delete().map_err(|error| Error::internal("delete the sandbox's cgroup", error))?
        }
        Err(berth_cgroup::CgroupError::NotFound { .. }) => {}
        Err(error) => return Err(Error::internal("open the sandbox's cgroup", error)),
    }
    if record.config.cgroup_parent.is_empty() {
        remove_default_parent(ground, &path);
    }
    Ok(())
}

/// The parent of pods without one belongs to nobody else, so it goes with its last pod. While a pod is in it, the
/// kernel keeps it.
fn remove_default_parent(ground: &Ground, leaf: &CgroupPath) {
    let _alone = ground.default_parent.lock().unwrap_or_else(PoisonError::into_inner);
    let leaf = leaf.relative();
    let Some(parent) = Path::new(&leaf).parent().filter(|parent| parent.components().count() == 1) else {
        return;
    };
    let v1 = ground.hierarchies.v1_mounts().into_iter().map(|(mount, _)| mount);
    for mount in v1.chain(ground.hierarchies.unified_mount()) {
        // Busy, or gone already: both are as it should be.
        let _ = rustix::fs::rmdir(mount.join(parent));
    }
}

fn leaf(record: &SandboxRecord) -> Result<Option<CgroupPath>, Error> {
    if record.cgroup.is_empty() {
        return Ok(None);
    }
    // By the form it was recorded in: the node's driver may be another one since.
    let path = CgroupPath::recorded(&record.cgroup);
    let path = path.map_err(|error| Error::internal("read the sandbox's cgroup path", error))?;
    Ok((path.driver() == Driver::Cgroupfs).then_some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_record_takes_its_pin_along() {
        let (dir, pins) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (name, stays) in [("berth-0123", false), ("cni-0123", true)] {
            let (pod, pin) = (dir.path().join(name), pins.path().join(name));
            std::fs::create_dir(&pod).unwrap();
            std::fs::write(&pin, "").unwrap();
            note_pin(&pod, &pin).unwrap();
            sweep(&pod).unwrap();
            assert_eq!((pod.exists(), pin.exists()), (false, stays), "{name}");
            sweep(&pod).unwrap();
        }
    }
}
