//! containerd's shim contract: the messages, the trait of a task service bound to ttrpc, and the names that stand
//! beside them on the wire.

use std::future::Future;
use std::sync::Arc;

use prost::Message;

use crate::ttrpc::{Answer, Service, Status as Refusal};

#[allow(
    missing_docs,
    clippy::all,
    reason = "generated from containerd/shim.proto, where the words are explained"
)]
mod words {
    include!(concat!(env!("OUT_DIR"), "/containerd.rs"));
}
pub use words::*;

/// The figures of a group of v1.
#[allow(missing_docs, clippy::all, reason = "generated from containerd/cgroups_v1.proto")]
pub mod cgroups_v1 {
    include!(concat!(env!("OUT_DIR"), "/cgroups_v1.rs"));
}

/// The figures of a group of v2.
#[allow(missing_docs, clippy::all, reason = "generated from containerd/cgroups_v2.proto")]
pub mod cgroups_v2 {
    include!(concat!(env!("OUT_DIR"), "/cgroups_v2.rs"));
}

/// The task service by its older name.
pub const TASK_V2: &str = "containerd.task.v2.Task";

/// The task service by its newer name; the messages are the same.
pub const TASK_V3: &str = "containerd.task.v3.Task";

/// Where a shim tells what happened: containerd's own ttrpc socket.
pub const EVENTS: &str = "containerd.services.events.ttrpc.v1.Events";

/// The one call of [`EVENTS`].
pub const FORWARD: &str = "Forward";

impl Any {
    /// A message under its name.
    pub fn of(name: &str, message: &impl Message) -> Any {
        Any { type_url: name.to_owned(), value: message.encode_to_vec() }
    }

    /// Whether it holds a message of that name, with or without a prefix that ends in a slash.
    pub fn is(&self, name: &str) -> bool {
        self.type_url == name || self.type_url.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'))
    }
}

/// Declares the trait of a task service and its dispatch from one list, so that they cannot differ.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident $wire:literal ($request:ident) -> $response:ident;)*) => {
        /// What a shim does for containerd. A call's future runs to its end even if the caller goes.
        pub trait TaskService: Send + Sync + 'static {
            $($(#[$doc])*
            fn $name(&self, request: $request) -> impl Future<Output = Result<$response, Refusal>> + Send;)*
        }

        impl<S: TaskService> Service for Dispatch<S> {
            fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
                let shim = self.shim.clone();
                match method {
                    $($wire => Box::pin(async move {
                        let request = $request::decode(&*payload);
                        let request = request.map_err(|e| Refusal::invalid(format!("undecodable request: {e}")))?;
                        Ok(shim.$name(request).await?.encode_to_vec())
                    }),)*
                    "Checkpoint" => refuse("checkpoints are not supported"),
                    unknown => refuse(&format!("no call {unknown} in the task service")),
                }
            }
        }
    };
}

calls! {
    /// How a container or exec is.
    state "State" (ProcessRequest) -> StateResponse;
    /// Builds a container up to the point before its program is executed.
    create "Create" (CreateTaskRequest) -> CreateTaskResponse;
    /// Executes the program of a container or exec.
    start "Start" (ProcessRequest) -> StartResponse;
    /// Frees what an ended container or exec holds.
    delete "Delete" (ProcessRequest) -> DeleteResponse;
    /// The processes of a container.
    pids "Pids" (ContainerRequest) -> PidsResponse;
    /// Stops all processes of a container where they stand.
    pause "Pause" (ContainerRequest) -> Empty;
    /// Lets them go on.
    resume "Resume" (ContainerRequest) -> Empty;
    /// Signals a container or exec.
    kill "Kill" (KillRequest) -> Empty;
    /// Notes a further process of a container, to be started by [`TaskService::start`].
    exec "Exec" (ExecProcessRequest) -> Empty;
    /// Sets the size of a terminal.
    resize_pty "ResizePty" (ResizePtyRequest) -> Empty;
    /// Ends the standard input.
    close_io "CloseIO" (CloseIoRequest) -> Empty;
    /// Sets new limits.
    update "Update" (UpdateTaskRequest) -> Empty;
    /// Answers when a container or exec has ended.
    wait "Wait" (ProcessRequest) -> WaitResponse;
    /// What a container uses.
    stats "Stats" (ContainerRequest) -> StatsResponse;
    /// The process ids of the shim and of a container.
    connect "Connect" (ContainerRequest) -> ConnectResponse;
    /// Ends the shim, unless it still has containers.
    shutdown "Shutdown" (ShutdownRequest) -> Empty;
}

/// Binds an implementation to the wire; give it to [`crate::ttrpc::Server::service`] under [`TASK_V2`] and [`TASK_V3`].
pub struct Dispatch<S> {
    shim: Arc<S>,
}

impl<S: TaskService> Dispatch<S> {
    /// Serves `shim`.
    pub fn new(shim: Arc<S>) -> Dispatch<S> {
        Dispatch { shim }
    }
}

fn refuse(reason: &str) -> Answer {
    let refusal = Refusal::unimplemented(reason);
    Box::pin(async move { Err(refusal) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_any_is_known_by_its_bare_name() {
        let any = Any { type_url: "type.googleapis.com/a.B".into(), value: Vec::new() };
        assert!(any.is("a.B"));
        assert!(!any.is("B"));
        assert!(Any::of("a.B", &Empty {}).is("a.B"));
    }
}
