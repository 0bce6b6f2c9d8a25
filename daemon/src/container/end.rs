//! The steps that unmake a container. Each succeeds where nothing is left to do, so that all can be tried again.

use super::ContainerRecord;
use crate::pod::{Error, Ground, Row, faults};
use crate::supervisor::Shim;
use berth_cgroup::{Cgroup, CgroupError, CgroupPath};
use berth_core::{Classified, ContainerId, ErrorClass};
use berth_proto::shim::DeleteRequest;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a killed cgroup may take to get empty.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);

/// Frees what the shim holds, removes bundle and writable layer, then the record.
///
/// # Errors
/// The step that failed.
pub(crate) async fn delete(
    ground: &Arc<Ground>,
    record: &Arc<ContainerRecord>,
    shim: Option<&Shim>,
) -> Result<(), Error> {
    let fault = |fault| Error::step("remove container", &fault);
    faults::DELETE_BEGUN.pass().map_err(fault)?;
    free(ground, record, shim).await?;
    faults::DELETE_FREED.pass().map_err(fault)?;
    remove_layer(Arc::clone(ground), record.id).await?;
    remove_bundle(Arc::clone(ground), ground.paths(record.sandbox).bundle(record.id)).await?;
    faults::DELETE_FILES.pass().map_err(fault)?;
    ground.save(vec![Row::NoContainer(record.id)]).await
}

/// Frees what a container holds in the kernel. Its shim does that; where there is none any more, its cgroup is killed
/// and deleted from here.
pub(super) async fn free(
    ground: &Arc<Ground>,
    record: &Arc<ContainerRecord>,
    shim: Option<&Shim>,
) -> Result<(), Error> {
    let Some(shim) = shim else { return delete_cgroup(ground, record).await };
    match shim.delete(&DeleteRequest { id: record.id.to_string() }).await {
        Ok(_) => Ok(()),
        Err(error) if error.class() == ErrorClass::NotFound => Ok(()),
        Err(Error::ShimGone(_)) => delete_cgroup(ground, record).await,
        Err(error) => Err(error),
    }
}

/// Removes the writable layer; a missing one is no error.
pub(super) async fn remove_layer(ground: Arc<Ground>, id: ContainerId) -> Result<(), Error> {
    let base = Arc::clone(&ground);
    let removed = ground.block("remove the writable layer", move || {
        let removed = base.snapshots.container_remove(id.as_str());
        removed.map_err(|error| Error::internal("remove the writable layer", error))
    });
    removed.await
}

/// Removes a bundle; a missing one is no error.
pub(super) async fn remove_bundle(ground: Arc<Ground>, dir: PathBuf) -> Result<(), Error> {
    let removed = ground.block("remove the bundle", move || {
        let removed = berth_snapshot::remove::tree(&dir);
        removed.map_err(|error| Error::internal("remove the bundle", error))
    });
    removed.await
}

async fn delete_cgroup(ground: &Arc<Ground>, record: &Arc<ContainerRecord>) -> Result<(), Error> {
    let (base, record) = (Arc::clone(ground), Arc::clone(record));
    let deleted = ground.block("delete the container's cgroup", move || {
        kill(&base, &record)?;
        match open(&base, &record)? {
            Some(cgroup) => {
                cgroup.delete().map_err(|error| Error::internal("delete the container's cgroup", error))
            }
            None => Ok(()),
        }
    });
    deleted.await
}

/// Kills everything in a container's cgroup without its shim, and waits until it is empty.
///
/// # Errors
/// Something in it does not die.
pub(crate) async fn kill_cgroup(ground: &Arc<Ground>, record: Arc<ContainerRecord>) -> Result<(), Error> {
    let base = Arc::clone(ground);
    ground.block("kill the container's cgroup", move || kill(&base, &record)).await
}

fn kill(ground: &Ground, record: &ContainerRecord) -> Result<(), Error> {
    let Some(cgroup) = open(ground, record)? else { return Ok(()) };
    let failed = |error: CgroupError| Error::internal("kill the container's cgroup", error);
    cgroup.kill().map_err(failed)?;
    let began = Instant::now();
    while !cgroup.procs().map_err(failed)?.is_empty() {
        if began.elapsed() > EMPTY_WITHIN {
            return Err(Error::Deadline {
                what: format!("the end of container {}, killed with its cgroup,", record.id),
                seconds: EMPTY_WITHIN.as_secs(),
                hint: "; a process of it sleeps in the kernel (state D)",
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn open(ground: &Ground, record: &ContainerRecord) -> Result<Option<Cgroup>, Error> {
    // A damaged record has none.
    if record.cgroup.is_empty() {
        return Ok(None);
    }
    // By the form it was recorded in: the node's driver may be another one since.
    let path = CgroupPath::recorded(&record.cgroup);
    let path = path.map_err(|error| Error::internal("read the container's cgroup path", error))?;
    match Cgroup::open(&ground.hierarchies, &path) {
        Ok(cgroup) => Ok(Some(cgroup)),
        Err(CgroupError::NotFound { .. }) => Ok(None),
        Err(error) => Err(Error::internal("open the container's cgroup", error)),
    }
}

/// Kills everything of a pod without its shim. What does not die is told in the log; the pod is lost all the same.
pub(crate) async fn kill_all(ground: &Arc<Ground>, records: Vec<Arc<ContainerRecord>>) {
    let kills = records.into_iter().map(|record| {
        let ground = Arc::clone(ground);
        tokio::spawn(async move {
            let id = record.id;
            if let Err(error) = kill_cgroup(&ground, record).await {
                tracing::error!(container = %id, %error, "a container of a lost pod could not be killed");
            }
        })
    });
    for kill in kills.collect::<Vec<_>>() {
        // A panic in there is in the log already.
        let _ = kill.await;
    }
}

/// The number of a signal given by name (with or without SIG) or number.
pub(super) fn signal_number(text: &str) -> Option<u32> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    const RTMIN: u32 = 34;
    const RTMAX: u32 = 64;
    if let Ok(number) = text.parse::<u32>() {
        return (1..=RTMAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(index) = NAMES.iter().position(|known| *known == name) {
        return u32::try_from(index + 1).ok();
    }
    let offset = |rest: &str, sign: char| match rest {
        "" => Some(0),
        rest => rest.strip_prefix(sign)?.parse::<u32>().ok().filter(|offset| *offset <= RTMAX - RTMIN),
    };
    match (name, name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        ("IOT", ..) => Some(6),
        ("CLD", ..) => Some(17),
        ("POLL", ..) => Some(29),
        (_, Some(rest), _) => offset(rest, '+').map(|offset| RTMIN + offset),
        (_, _, Some(rest)) => offset(rest, '-').map(|offset| RTMAX - offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_by_name_and_number() {
        let table = [
            ("SIGTERM", Some(15)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMAX-1", Some(63)),
            ("SIGIOT", Some(6)),
            ("SIGPOLL", Some(29)),
            ("0", None),
            ("65", None),
            ("SIGNONE", None),
            ("SIGRTMIN+99", None),
            ("", None),
        ];
        for (text, number) in table {
            assert_eq!(signal_number(text), number, "{text:?}");
        }
    }
}
