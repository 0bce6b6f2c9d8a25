//! What is done with a container that is there: start, signal, exec, reopen its log, change its limits.

use super::ContainerRecord;
use super::{facts, spec};
use crate::pod::{Error, Ground, faults};
use crate::sandbox::Resources;
use crate::supervisor::Shim;
use berth_core::{Classified, ContainerId, ErrorClass, Timestamp};
use berth_proto::shim::{
    ExecSyncRequest, ExecSyncResponse, KillRequest, ListRequest, ReopenLogRequest, StartRequest,
    UpdateRequest,
};
use std::sync::Arc;
use std::time::Duration;

/// Bytes kept of each of an exec's streams: both, with the rest of the answer, must fit one CRI message of 16 MiB.
pub(crate) const EXEC_OUTPUT_MAX: u64 = (8 << 20) - (64 << 10);

fn there(shim: Option<&Shim>, id: ContainerId) -> Result<&Shim, Error> {
    shim.ok_or_else(|| Error::ShimGone(format!("container {id}")))
}

/// Starts its program; gives the time of it.
pub(crate) async fn start(shim: Option<&Shim>, id: ContainerId) -> Result<Timestamp, Error> {
    let fault = |fault| Error::step("start container", &fault);
    faults::START_BEGUN.pass().map_err(fault)?;
    let shim = there(shim, id)?;
    let started = match shim.start(&StartRequest { id: id.to_string() }).await {
        Ok(started) => faults::START_DONE.pass().map_err(fault).map(|()| Timestamp(started.started_at)),
        Err(error) if matches!(error.class(), ErrorClass::DeadlineExceeded | ErrorClass::Unavailable) => {
            Err(error)
        }
        Err(refused) => return Err(refused),
    };
    match started {
        Ok(at) => Ok(at),
        Err(error) => started_after_all(shim, id, error).await,
    }
}

/// The answer to a start got lost: the shim knows whether it happened.
async fn started_after_all(shim: &Shim, id: ContainerId, error: Error) -> Result<Timestamp, Error> {
    let known = shim.list(&ListRequest {}).await.unwrap_or_default().containers;
    let found = known.into_iter().find(|state| state.id == id.as_str() && state.started_at > 0);
    found.map(|state| Timestamp(state.started_at)).ok_or(error)
}

/// Signals it. A failure is only told: whoever waits for its end has a deadline.
pub(crate) async fn signal(shim: Option<&Shim>, id: ContainerId, signal: u32, all: bool) {
    let Some(shim) = shim else { return };
    if let Err(fault) = faults::SIGNAL_BEGUN.pass() {
        return tracing::warn!(container = %id, signal, all, %fault, "a signal could not be sent");
    }
    if let Err(error) = shim.kill(&KillRequest { id: id.to_string(), signal, all }).await {
        tracing::warn!(container = %id, signal, all, %error, "a signal could not be sent");
    }
}

/// Runs a program in it.
pub(crate) async fn exec_sync(
    shim: Option<&Shim>,
    id: ContainerId,
    argv: Vec<String>,
    timeout: Duration,
) -> Result<ExecSyncResponse, Error> {
    faults::EXEC_BEGUN.pass().map_err(|fault| Error::step("exec", &fault))?;
    let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
    let request = ExecSyncRequest { id: id.to_string(), argv, timeout_ms, output_cap: EXEC_OUTPUT_MAX };
    there(shim, id)?.exec_sync(&request).await
}

/// Opens its log anew.
pub(crate) async fn reopen_log(shim: Option<&Shim>, id: ContainerId) -> Result<(), Error> {
    there(shim, id)?.reopen_log(&ReopenLogRequest { id: id.to_string() }).await.map(drop)
}

/// Changes its limits, all or none.
pub(crate) async fn update(
    ground: &Arc<Ground>,
    shim: Option<&Shim>,
    record: &ContainerRecord,
    asked: &Resources,
) -> Result<(), Error> {
    let base = Arc::clone(ground);
    let swap = ground.block("look for swap accounting", move || Ok(facts::swap(&base))).await?;
    let limits = spec::resources(asked, swap);
    let resources =
        serde_json::to_vec(&limits).map_err(|error| Error::internal("write the limits", error))?;
    let id = record.id.to_string();
    match there(shim, record.id)?.update(&UpdateRequest { id, resources }).await {
        Err(error) if berth_core::Classified::class(&error) == ErrorClass::NotFound => {
            Err(Error::NoContainer(record.id.to_string()))
        }
        done => done.map(drop),
    }
}
