//! Delete: what an ended process holds is freed; with a container's first one, all that the container holds.

use std::sync::Arc;
use std::time::Duration;

use berth_proto::containerd as wire;

use crate::blocking;
use crate::error::{CallError, Step};
use crate::v2::container::Container;
use crate::v2::process::{Life, Process};
use crate::v2::shim::Shim;
use crate::v2::{record, serve};

/// A killed process has this long to end.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// The last output has this long to be read.
const LAST_OUTPUT_MAX: Duration = Duration::from_secs(2);

/// Deletes a container or exec that has ended, or was never started.
pub(super) async fn delete(
    shim: &Arc<Shim>,
    request: wire::ProcessRequest,
) -> Result<wire::DeleteResponse, CallError> {
    let container = shim.find(&request.id)?;
    let process = container.process(&request.exec_id)?;
    let life = *process.life();
    if matches!(life, Life::Running(_)) {
        return Err(process.refusal(&container.id, "it must have ended"));
    }
    if request.exec_id.is_empty() {
        first(shim, &container).await?;
    } else {
        further(shim, &container, &process).await;
    }
    let end = process.life().end();
    let (pid, exit_status) = (process.life().pid(), end.map_or(0, |(code, _)| code.into()));
    let exited_at = end.map(|(_, at)| serve::time(at));
    if request.exec_id.is_empty() {
        shim.events.delete(wire::TaskDelete {
            container_id: container.id.clone(),
            pid,
            exit_status,
            exited_at,
            id: String::new(),
        });
    }
    Ok(wire::DeleteResponse { pid, exit_status, exited_at })
}

async fn further(shim: &Shim, container: &Container, process: &Process) {
    let _turn = process.turn.lock().await;
    if let Some(handles) = process.handles.get() {
        handles.streams.finish(shim, LAST_OUTPUT_MAX).await;
    }
    container.execs().remove(&process.exec_id);
}

async fn first(shim: &Arc<Shim>, container: &Arc<Container>) -> Result<(), CallError> {
    // Also one that was created and not started: it goes the way of all.
    container.signal_all(9).await?;
    let hangs = |_| CallError::Hangs(container.id.clone());
    tokio::time::timeout(DEATH_MAX, container.first.stopped()).await.map_err(hangs)?;
    let _turn = container.first.turn.lock().await;
    if !shim.find(&container.id).is_ok_and(|found| Arc::ptr_eq(&found, container)) {
        return Err(CallError::Unknown(container.id.clone()));
    }
    // The runtime waits for its hooks itself.
    let busy = shim.reaper.busy();
    let built = container.built.clone().read_owned().await;
    for warning in blocking::run(move || Ok(berth_runtime::delete(&built)?)).await? {
        crate::say!("container {}: {warning}", container.id);
    }
    drop(busy);
    container.first.handles(&container.id)?.streams.finish(shim, LAST_OUTPUT_MAX).await;
    let bundle = container.bundle.clone();
    blocking::run(move || {
        berth_runtime::unmount_root(&bundle.join("rootfs"))?;
        record::remove(&bundle);
        Ok(())
    })
    .await?;
    shim.containers.forget(&container.id);
    Ok(())
}

/// A container that could not be taken into the books goes again.
pub(super) async fn undo(shim: &Shim, built: berth_runtime::Created) {
    let (pid, pidfd) = (built.pid, built.pidfd.try_clone().step(|| "copy a handle".to_owned()));
    let killed = blocking::run(move || {
        berth_runtime::kill(&built.pidfd, 9)?;
        Ok(built)
    })
    .await;
    if let Ok(pidfd) = pidfd {
        shim.reaper.wait(pid, &pidfd).await;
    }
    if let Ok(built) = killed {
        let _left = blocking::run(move || Ok(berth_runtime::delete(&built)?)).await;
    }
}
