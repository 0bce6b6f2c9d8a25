//! List: every container, as the wire words it.

use std::sync::Arc;

use berth_core::exit::Exit;
use berth_proto::shim as wire;

use crate::container::Container;
use crate::phase::Phase;
use crate::pod::Pod;
use crate::task::create::user_to_wire;

/// Every container, sorted by id.
pub(crate) fn list(pod: &Arc<Pod>) -> wire::ListResponse {
    wire::ListResponse {
        containers: pod.containers.all().iter().map(|container| describe(container)).collect(),
    }
}

fn describe(container: &Container) -> wire::ContainerState {
    let phase = container.phase().clone();
    let state = match &phase {
        Phase::Created | Phase::Doomed { .. } => wire::State::Created,
        Phase::Running { .. } => wire::State::Running,
        Phase::Stopped { .. } => wire::State::Stopped,
    };
    wire::ContainerState {
        id: container.id.clone(),
        state: state.into(),
        pid: if phase.exit().is_some() { 0 } else { container.pid.unsigned_abs() },
        created_at: container.created_at.nanos(),
        started_at: phase.started_at().nanos(),
        exit: phase.exit().map(exit_to_wire),
        user: Some(user_to_wire(container)),
    }
}

/// An exit in the wire's words.
pub(crate) fn exit_to_wire(exit: &Exit) -> wire::Exit {
    wire::Exit {
        code: exit.code.into(),
        exited_at: exit.at.nanos(),
        oom_killed: exit.oom_killed,
        cause: exit.cause.clone(),
    }
}
