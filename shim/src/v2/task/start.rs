//! Start: the program of a container or exec is executed.

use std::sync::{Arc, PoisonError};

use berth_core::Timestamp;
use berth_core::exit::CODE_UNKNOWN;
use berth_core::oci::Process as Program;
use berth_proto::containerd as wire;
use berth_runtime::{Exec as Started, ExecArgs, ExecProgram, Stdio};

use crate::blocking;
use crate::error::CallError;
use crate::v2::container::{Container, Exec, watch_to_the_end};
use crate::v2::process::{Handles, Life};
use crate::v2::shim::Shim;
use crate::v2::stdio::{Ends, Kept};

/// Starts a process; one that cannot be executed is this call's error, and a container's end.
pub(super) async fn start(
    shim: Arc<Shim>,
    request: wire::ProcessRequest,
) -> Result<wire::StartResponse, CallError> {
    let container = shim.find(&request.id)?;
    let pid = match request.exec_id.as_str() {
        "" => first(&shim, &container).await?,
        exec_id => {
            let exec = container.exec(exec_id)?;
            further(&shim, &container, &exec).await?
        }
    };
    Ok(wire::StartResponse { pid })
}

async fn first(shim: &Arc<Shim>, container: &Arc<Container>) -> Result<u32, CallError> {
    // The exit of a program that ends at once is told after its start, not before.
    let _turn = container.first.turn.lock().await;
    let life = *container.first.life();
    let Life::Created(pid) = life else {
        return Err(container.first.refusal(&container.id, "it must be created"));
    };
    let mut built = container.built.clone().write_owned().await;
    let busy = shim.reaper.busy();
    let result = blocking::run(move || Ok(berth_runtime::start(&mut built)?)).await;
    drop(busy);
    if let Err(error) = result {
        // Whatever init does now, nothing of it is to stay.
        let handles = container.first.handles(&container.id)?;
        let _ended_already = berth_sys::pidfd::send_signal(&handles.pidfd, 9);
        return Err(error);
    }
    *container.first.life() = Life::Running(pid);
    shim.events.start(&container.id, pid.unsigned_abs());
    Ok(pid.unsigned_abs())
}

async fn further(shim: &Arc<Shim>, container: &Arc<Container>, exec: &Arc<Exec>) -> Result<u32, CallError> {
    let process = &exec.process;
    let _turn = process.turn.lock().await;
    let program = exec.program.lock().unwrap_or_else(PoisonError::into_inner).take();
    let program = program.ok_or_else(|| process.refusal(&container.id, "it must not have been started"))?;
    if matches!(*container.first.life(), Life::Stopped { .. }) {
        return Err(container.first.refusal(&container.id, "it must be running"));
    }
    match launch(shim, container, exec, *program).await {
        Ok(pid) => {
            *process.life() = Life::Running(pid);
            shim.events.exec_started(&container.id, &process.exec_id, pid.unsigned_abs());
            crate::background::spawn(watch_to_the_end(shim.clone(), container.clone(), process.clone()));
            Ok(pid.unsigned_abs())
        }
        Err(error) => {
            process.end(CODE_UNKNOWN, Timestamp::now());
            Err(error)
        }
    }
}

async fn launch(
    shim: &Arc<Shim>,
    container: &Arc<Container>,
    exec: &Exec,
    program: Program,
) -> Result<i32, CallError> {
    let Ends { give, mut kept } =
        Ends::open(shim, &container.id, &exec.process.paths, container.io_owner).await?;
    let launched = run(shim, container, exec, program, give, &mut kept).await;
    if launched.is_err() {
        kept.give_up(shim).await;
    }
    launched
}

async fn run(
    shim: &Arc<Shim>,
    container: &Arc<Container>,
    exec: &Exec,
    program: Program,
    stdio: Stdio,
    kept: &mut Kept,
) -> Result<i32, CallError> {
    let _busy = shim.reaper.busy();
    let built = container.built.clone().read_owned().await;
    let exe = shim.exe.clone();
    let started: Started = blocking::run(move || {
        Ok(berth_runtime::exec(&ExecArgs {
            context: &built.context,
            pid: built.pid,
            pidfd: &built.pidfd,
            cgroup: &built.cgroup,
            kill_group: None,
            places: None,
            program: ExecProgram::Process(Box::new(program)),
            stdio,
            preserved: Vec::new(),
            exe: &exe,
        })?)
    })
    .await?;
    shim.reaper.adopt(started.pid);
    let console = started.console.map(Arc::new);
    let streams = match kept.run(console.as_ref()) {
        Ok(streams) => streams,
        Err(error) => {
            let _ended_already = berth_sys::pidfd::send_signal(&started.pidfd, 9);
            shim.reaper.wait(started.pid, &started.pidfd).await;
            return Err(error);
        }
    };
    exec.process.fill(Handles { pidfd: started.pidfd, console, streams });
    Ok(started.pid)
}
