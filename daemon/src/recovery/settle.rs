//! One pod after a restart of the daemon: what the store says, corrected by what lives.

use super::Stored;
use crate::container::{self, ContainerRecord, ContainerState, Exited, Reason, RunUser, START_ERROR_CODE};
use crate::events::from_wire;
use crate::patience::{WORK_MAX, in_time};
use crate::pod::machine::Exit;
use crate::pod::{Error, Ground, Restored, Row};
use crate::sandbox::{self, SandboxRecord, SandboxState};
use crate::supervisor::{self, Found, Shim};
use berth_core::Timestamp;
use berth_proto::shim::{ContainerState as Told, DeleteRequest, ListRequest, State};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settles a pod. None if it is gone now: it had never been finished.
pub(super) async fn settle(ground: Arc<Ground>, stored: Stored) -> Option<Restored> {
    let Stored { sandbox, containers } = stored;
    match &sandbox.state {
        SandboxState::Creating => half_made(&ground, sandbox).await,
        SandboxState::Ready(_) if sandbox.boot_id != ground.boot_id => {
            Some(save(&ground, ended(sandbox, containers, Reason::NodeRestart), None).await)
        }
        SandboxState::Ready(_) => Some(living(&ground, sandbox, containers).await),
        SandboxState::NotReady { .. } => Some(over(&ground, sandbox, containers).await),
    }
}

/// A sandbox that is not ready: nothing of it may live. For one that ended well there is nothing to do; a damaged or
/// lost one may have left its shim and its containers running.
async fn over(ground: &Arc<Ground>, sandbox: SandboxRecord, containers: Vec<ContainerRecord>) -> Restored {
    end_all(ground, &sandbox, &containers).await;
    let containers = containers.iter().map(|record| rest(record, Reason::ShimLost)).collect();
    save(ground, (sandbox, containers), None).await
}

/// Ends a shim and kills what it left, without its help if need be.
async fn end_all(ground: &Arc<Ground>, sandbox: &SandboxRecord, containers: &[ContainerRecord]) {
    let (ground, id, shim) = (Arc::clone(ground), sandbox.id, sandbox.shim_pid());
    let alive = containers.iter().filter(|record| !matches!(record.state, ContainerState::Exited(_)));
    let alive: Vec<_> = alive.cloned().map(Arc::new).collect();
    let end = async move {
        if let Err(error) = supervisor::end_at(&ground.paths(id), id, shim).await {
            tracing::error!(sandbox = %id, %error, "the shim of a sandbox that is over could not be ended");
        }
        container::kill_all(&ground, alive).await;
    };
    in_time(id, "end what is left of a pod", end).await;
}

/// A sandbox whose steps were cut short: nobody was told of it, so it is undone. What cannot be undone is shown.
async fn half_made(ground: &Arc<Ground>, sandbox: SandboxRecord) -> Option<Restored> {
    let record = Arc::new(sandbox);
    let (base, torn) = (Arc::clone(ground), Arc::clone(&record));
    let tear_down = async move { sandbox::tear_down(&base, &torn, None).await };
    let late = || {
        let what = "its undoing, which goes on,".to_owned();
        (record.network.clone(), Err(Error::Deadline { what, seconds: WORK_MAX.as_secs(), hint: "" }))
    };
    let (network, torn) =
        in_time(record.id, "undo a half-made sandbox", tear_down).await.unwrap_or_else(late);
    let undone = match torn {
        Ok(()) => sandbox::unmake(ground, &record).await,
        Err(error) => Err(error),
    };
    let Err(error) = undone else { return None };
    tracing::error!(sandbox = %record.id, %error, "a half-made sandbox could not be undone; it is shown as not ready");
    let mut record = SandboxRecord::clone(&record);
    record.network = network;
    record.state = SandboxState::NotReady { at: Timestamp::now(), cause: Some(error.to_string()) };
    Some(save(ground, (record, Vec::new()), None).await)
}

/// A sandbox of this boot: its shim knows more than the store. One that does not answer now is no dead one.
async fn living(ground: &Arc<Ground>, sandbox: SandboxRecord, containers: Vec<ContainerRecord>) -> Restored {
    let id = sandbox.id;
    let (shim, told) = match supervisor::find(&ground.paths(id), id, sandbox.shim_pid()).await {
        Found::Nobody => return lost(ground, sandbox, containers).await,
        Found::Mute { why, .. } => return mute(sandbox, containers, &why),
        Found::Shim(shim) => match shim.list(&ListRequest {}).await {
            Ok(answer) => (shim, answer.containers),
            Err(why) => return mute(sandbox, containers, &why),
        },
    };
    let mut told: BTreeMap<String, Told> = told.into_iter().map(|state| (state.id.clone(), state)).collect();
    let mut settled = Vec::new();
    for record in containers {
        let state = told.remove(record.id.as_str());
        settled.extend(one(ground, &shim, record, state).await);
    }
    for stranger in told.into_keys() {
        tracing::warn!(sandbox = %id, container = stranger, "the shim has a container that no record knows; deleted");
        let _ = shim.delete(&DeleteRequest { id: stranger }).await;
    }
    save(ground, (sandbox, settled), Some(shim)).await
}

/// A pod whose shim does not answer now is left as it is; its actor goes on asking.
fn mute(sandbox: SandboxRecord, containers: Vec<ContainerRecord>, why: &Error) -> Restored {
    tracing::error!(sandbox = %sandbox.id, %why, "a shim does not answer; its pod is left as it is");
    let as_far_as_known = |mut record: ContainerRecord| {
        if record.state == ContainerState::Creating {
            record.state =
                ContainerState::Unknown { cause: format!("half made, and its shim does not answer: {why}") };
        }
        record
    };
    Restored { sandbox, containers: containers.into_iter().map(as_far_as_known).collect(), shim: None }
}

/// One container of a living pod; none if it had never been finished.
async fn one(
    ground: &Arc<Ground>,
    shim: &Shim,
    record: ContainerRecord,
    told: Option<Told>,
) -> Option<ContainerRecord> {
    match (&record.state, told) {
        (ContainerState::Creating, _) => {
            let record = Arc::new(record);
            let (ground, half, shim) = (Arc::clone(ground), Arc::clone(&record), shim.clone());
            let delete = async move { container::delete(&ground, &half, Some(&shim)).await };
            let why = match in_time(record.sandbox, "undo a half-made container", delete).await {
                Some(deleted) => deleted.err()?.to_string(),
                None => "that goes on".to_owned(),
            };
            let mut record = ContainerRecord::clone(&record);
            record.state = ContainerState::Unknown { cause: format!("half made, and not undone: {why}") };
            Some(record)
        }
        (ContainerState::Exited(_), _) => Some(record),
        (_, None) => Some(rest(&record, Reason::ShimLost)),
        (_, Some(told)) => Some(as_told(record, &told)),
    }
}

fn as_told(mut record: ContainerRecord, told: &Told) -> ContainerRecord {
    if let (None, Some(user)) = (&record.user, &told.user) {
        record.user = Some(RunUser { uid: user.uid, gid: user.gid, groups: user.groups.clone() });
    }
    let started_at = Timestamp(told.started_at);
    record.state = match told.state() {
        State::Created => ContainerState::Created { pid: told.pid },
        State::Running | State::Paused => ContainerState::Running { pid: told.pid, started_at },
        State::Stopped => {
            let unknown = || Exit {
                code: 255,
                at: Timestamp::now(),
                oom: false,
                cause: "its exit is not known".into(),
            };
            let exit = told.exit.as_ref().map_or_else(unknown, from_wire);
            ContainerState::Exited(Exited {
                started_at,
                finished_at: exit.at.at_least(started_at.at_least(record.created_at)),
                code: exit.code,
                reason: match (exit.oom, exit.code) {
                    (true, _) => Reason::OomKilled,
                    (false, 0) => Reason::Completed,
                    (false, START_ERROR_CODE) if started_at == Timestamp::NEVER => Reason::StartError,
                    (false, _) => Reason::Error,
                },
                message: exit.cause,
            })
        }
        State::Unspecified => ContainerState::Unknown { cause: "its shim told no state".to_owned() },
    };
    record
}

/// A pod whose shim is gone: everything of it is killed by its cgroups.
async fn lost(ground: &Arc<Ground>, sandbox: SandboxRecord, containers: Vec<ContainerRecord>) -> Restored {
    tracing::error!(sandbox = %sandbox.id, "a pod lost its shim while the daemon was away");
    end_all(ground, &sandbox, &containers).await;
    save(ground, ended(sandbox, containers, Reason::ShimLost), None).await
}

fn ended(
    mut sandbox: SandboxRecord,
    containers: Vec<ContainerRecord>,
    reason: Reason,
) -> (SandboxRecord, Vec<ContainerRecord>) {
    let cause = Some(reason.as_str().to_owned());
    sandbox.state = SandboxState::NotReady { at: Timestamp::now(), cause };
    (sandbox, containers.iter().map(|record| rest(record, reason)).collect())
}

/// A container that cannot run any more.
fn rest(record: &ContainerRecord, reason: Reason) -> ContainerRecord {
    let mut record = record.clone();
    let started_at = match record.state {
        ContainerState::Exited(_) => return record,
        ContainerState::Running { started_at, .. } => started_at,
        _ => Timestamp::NEVER,
    };
    record.state = ContainerState::Exited(Exited {
        started_at,
        finished_at: Timestamp::now().at_least(started_at.at_least(record.created_at)),
        code: if reason == Reason::NodeRestart { 255 } else { 137 },
        reason,
        message: String::new(),
    });
    record
}

/// Saves what was settled. A save that fails is told; the next start settles again.
async fn save(
    ground: &Arc<Ground>,
    (sandbox, containers): (SandboxRecord, Vec<ContainerRecord>),
    shim: Option<Shim>,
) -> Restored {
    let mut rows = vec![Row::Sandbox(Arc::new(sandbox.clone()))];
    rows.extend(containers.iter().cloned().map(|record| Row::Container(Arc::new(record))));
    if let Err(error) = ground.save(rows).await {
        tracing::error!(sandbox = %sandbox.id, %error, "a settled pod could not be saved");
    }
    Restored { sandbox, containers, shim }
}
