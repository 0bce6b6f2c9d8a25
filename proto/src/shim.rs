//! berth.shim.v1: the messages, a typed client and the trait of a server, bound to ttrpc.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;

use crate::ttrpc::{Answer, CallError, Client, ConnectError, Service, Status};

#[allow(missing_docs, clippy::all, reason = "generated from shim/shim.proto, where the words are explained")]
mod words {
    include!(concat!(env!("OUT_DIR"), "/berth.shim.v1.rs"));
}
pub use words::*;

/// The service's full name on the wire.
pub const SERVICE: &str = "berth.shim.v1.Shim";

/// The protocol's level: what `Info` answers.
pub const LEVEL: u32 = 1;

/// The largest frame of this protocol: an exec's output is up to 16 MiB.
pub const FRAME_MAX: usize = 20 << 20;

/// Declares client, server trait and dispatch from one list, so that they cannot differ.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident $wire:literal ($request:ident) -> $response:ident;)*) => {
        /// What a shim does. A call's future runs to its end even if the caller goes.
        pub trait ShimService: Send + Sync + 'static {
            $($(#[$doc])*
            fn $name(&self, request: $request) -> impl Future<Output = Result<$response, Status>> + Send;)*
        }

        impl ShimClient {
            $($(#[$doc])*
            pub async fn $name(&self, request: &$request, timeout: Duration) -> Result<$response, CallError> {
                self.client.call(SERVICE, $wire, request, Some(timeout)).await
            })*
        }

        impl<S: ShimService> Service for Dispatch<S> {
            fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
                let shim = self.shim.clone();
                match method {
                    $($wire => Box::pin(async move {
                        let answer = shim.$name(decode::<$request>(&payload)?).await?;
                        Ok(answer.encode_to_vec())
                    }),)*
                    unknown => {
                        let status = Status::unimplemented(format!("no call {unknown} in {SERVICE}"));
                        Box::pin(async move { Err(status) })
                    }
                }
            }
        }

        #[cfg(test)]
        const WIRE_NAMES: &[(&str, &str, &str)] =
            &[$(($wire, stringify!($request), stringify!($response)),)*];
    };
}

calls! {
    /// What this shim is; the first call on every connection.
    info "Info" (InfoRequest) -> InfoResponse;
    /// Makes the pod's own namespaces.
    start_sandbox "StartSandbox" (StartSandboxRequest) -> StartSandboxResponse;
    /// Builds a container up to the point before its program is executed.
    create "Create" (CreateRequest) -> CreateResponse;
    /// Executes the container's program.
    start "Start" (StartRequest) -> StartResponse;
    /// Signals a container.
    kill "Kill" (KillRequest) -> KillResponse;
    /// Frees what a container holds.
    delete "Delete" (DeleteRequest) -> DeleteResponse;
    /// Every container known.
    list "List" (ListRequest) -> ListResponse;
    /// Runs a program in a container and brings its output.
    exec_sync "ExecSync" (ExecSyncRequest) -> ExecSyncResponse;
    /// Opens a container's log file anew, after it was rotated.
    reopen_log "ReopenLog" (ReopenLogRequest) -> ReopenLogResponse;
    /// Changes a container's limits.
    update "Update" (UpdateRequest) -> UpdateResponse;
    /// Long poll for what happened beyond the acknowledged.
    events "Events" (EventsRequest) -> EventsResponse;
    /// Ends everything, the shim last.
    shutdown "Shutdown" (ShutdownRequest) -> ShutdownResponse;
}

/// A typed client. Clones share the connection.
#[derive(Clone)]
pub struct ShimClient {
    client: Client,
}

impl ShimClient {
    /// Connects to a shim's socket.
    pub async fn connect(path: &Path) -> Result<ShimClient, ConnectError> {
        Ok(ShimClient { client: Client::connect_with(path, FRAME_MAX).await? })
    }

    /// Speaks over a connection that was made elsewhere.
    pub fn new(client: Client) -> ShimClient {
        ShimClient { client }
    }

    /// True once the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Binds an implementation to the wire; give it to [`crate::ttrpc::Server::service`] under [`SERVICE`].
pub struct Dispatch<S> {
    shim: Arc<S>,
}

impl<S: ShimService> Dispatch<S> {
    /// Serves `shim`.
    pub fn new(shim: Arc<S>) -> Dispatch<S> {
        Dispatch { shim }
    }
}

fn decode<Q: Message + Default>(payload: &[u8]) -> Result<Q, Status> {
    Q::decode(payload).map_err(|error| Status::invalid(format!("undecodable request: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_the_protocol_is_bound() {
        let text = include_str!("../shim/shim.proto");
        let declared: Vec<(String, String, String)> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("rpc "))
            .map(|line| {
                let mut words =
                    line.split(['(', ')', ' ', ';']).filter(|word| !word.is_empty() && *word != "returns");
                let mut next = || words.next().expect("a word").to_owned();
                (next(), next(), next())
            })
            .collect();
        let bound: Vec<(String, String, String)> =
            WIRE_NAMES.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
        assert_eq!(declared, bound);
    }
}
