//! Exec: a further process is noted; Start runs it.

use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use berth_core::oci::Process as Program;
use berth_proto::containerd as wire;

use crate::error::CallError;
use crate::v2::container::Exec;
use crate::v2::process::{Life, Process};
use crate::v2::shim::Shim;
use crate::v2::stdio::Paths;

/// Takes an id for an exec, whose process comes as JSON of the runtime specification.
pub(super) fn exec(shim: &Shim, request: wire::ExecProcessRequest) -> Result<wire::Empty, CallError> {
    let container = shim.find(&request.id)?;
    if request.exec_id.is_empty() {
        return Err(CallError::request("exec_id", "is empty"));
    }
    let spec = request.spec.ok_or_else(|| CallError::request("spec", "is missing"))?;
    let program: Program =
        serde_json::from_slice(&spec.value).map_err(|error| CallError::request("spec", error.to_string()))?;
    if matches!(*container.first.life(), Life::Stopped { .. }) {
        return Err(container.first.refusal(&container.id, "it must not have ended"));
    }
    let paths = Paths {
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
        terminal: request.terminal,
    };
    let process = Arc::new(Process::new(request.exec_id.clone(), paths));
    match container.execs().entry(request.exec_id.clone()) {
        Entry::Occupied(taken) => {
            return Err(CallError::Exists(format!("{}, exec {}", request.id, taken.key())));
        }
        Entry::Vacant(free) => {
            free.insert(Arc::new(Exec { process, program: Mutex::new(Some(Box::new(program))) }));
        }
    }
    shim.events.exec_added(&container.id, &request.exec_id);
    Ok(wire::Empty {})
}
