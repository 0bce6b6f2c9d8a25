//! A shim in hand: every call has a deadline, and a refusal keeps the shim's own words.

use super::Process;
use crate::pod::Error;
use berth_core::{ErrorClass, SandboxId};
use berth_proto::shim::{self as wire, ShimClient};
use berth_proto::ttrpc::{CallError, Code};
use std::sync::Arc;
use std::time::Duration;

/// For calls that only look or signal.
const SHORT: Duration = Duration::from_secs(10);
/// For calls that build or free something.
const LONG: Duration = Duration::from_secs(120);
/// What an exec may take beyond its own time-out.
const EXEC_MARGIN: Duration = Duration::from_secs(30);
/// An exec without a time-out of its own.
const EXEC_FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// A connected shim. Clones share the connection.
#[derive(Clone)]
pub struct Shim(Arc<Inner>);

struct Inner {
    client: ShimClient,
    sandbox: SandboxId,
    pid: u32,
    process: Option<Process>,
    features: Vec<String>,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident within $limit:expr;)*) => {
        impl Shim {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The shim's refusal, a deadline, or its end.
            pub(crate) async fn $name(&self, request: &wire::$request) -> Result<wire::$response, Error> {
                let answer = self.0.client.$name(request, $limit).await;
                answer.map_err(|error| self.explain(&error))
            })*
        }
    };
}

calls! {
    /// Makes the pod's namespaces.
    start_sandbox(StartSandboxRequest) -> StartSandboxResponse within LONG;
    /// Prepares a container.
    create(CreateRequest) -> CreateResponse within LONG;
    /// Starts a container's program.
    start(StartRequest) -> StartResponse within LONG;
    /// Signals a container.
    kill(KillRequest) -> KillResponse within SHORT;
    /// Frees what a container holds.
    delete(DeleteRequest) -> DeleteResponse within LONG;
    /// Every container known.
    list(ListRequest) -> ListResponse within SHORT;
    /// Opens a log anew.
    reopen_log(ReopenLogRequest) -> ReopenLogResponse within SHORT;
    /// Changes limits.
    update(UpdateRequest) -> UpdateResponse within LONG;
    /// Ends everything, the shim last.
    shutdown(ShutdownRequest) -> ShutdownResponse within LONG;
    /// Is it there?
    info(InfoRequest) -> InfoResponse within SHORT;
}

impl Shim {
    /// A shim that has told who it is.
    pub(crate) fn new(
        client: ShimClient,
        sandbox: SandboxId,
        info: wire::InfoResponse,
        process: Option<Process>,
    ) -> Self {
        let (pid, features) = (info.pid, info.features);
        Self(Arc::new(Inner { client, sandbox, pid, process, features }))
    }

    /// What happened; the shim may hold the answer back as long as the request says.
    ///
    /// # Errors
    /// The shim's refusal, a deadline, or its end.
    pub(crate) async fn events(&self, request: &wire::EventsRequest) -> Result<wire::EventsResponse, Error> {
        let limit = Duration::from_millis(request.wait_ms) + SHORT;
        self.0.client.events(request, limit).await.map_err(|error| self.explain(&error))
    }

    /// Runs a program in a container.
    ///
    /// # Errors
    /// The shim's refusal, a deadline, or its end.
    pub(crate) async fn exec_sync(
        &self,
        request: &wire::ExecSyncRequest,
    ) -> Result<wire::ExecSyncResponse, Error> {
        let limit = match u64::try_from(request.timeout_ms) {
            Ok(0) | Err(_) => EXEC_FOREVER,
            Ok(millis) => Duration::from_millis(millis) + EXEC_MARGIN,
        };
        self.0.client.exec_sync(request, limit).await.map_err(|error| self.explain(&error))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// What it can do.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.0.features
    }

    /// Its process, where the kernel gave a handle of it.
    pub(crate) fn process(&self) -> Option<&Process> {
        self.0.process.as_ref()
    }

    /// Returns once its process has ended. Without a handle of it, this waits for ever: the lost connection tells.
    pub(crate) async fn ended(&self) {
        match self.process() {
            Some(process) => process.ended().await,
            None => std::future::pending().await,
        }
    }

    /// True once the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.client.is_closed()
    }

    /// Ends a shim that does not answer any more, and waits for its end.
    ///
    /// # Errors
    /// It lives on.
    pub(crate) async fn kill_hard(&self) -> Result<(), Error> {
        match self.process() {
            Some(process) => process.kill_and_wait(self.0.sandbox).await,
            None => Ok(()),
        }
    }

    fn explain(&self, error: &CallError) -> Error {
        match error {
            CallError::Refused { method, status } => Error::Step {
                class: class(status.code),
                word: None,
                step: method.clone(),
                cause: status.message.clone(),
            },
            CallError::Deadline { method, after } => Error::Deadline {
                what: format!("{method} of the shim of sandbox {}", self.0.sandbox),
                seconds: after.as_secs(),
                hint: "",
            },
            CallError::Disconnected { .. } => Error::ShimGone(format!("sandbox {}", self.0.sandbox)),
            // Whether it did what it was asked is not known.
            other => Error::Step {
                class: ErrorClass::Unavailable,
                word: None,
                step: "read the shim's answer".to_owned(),
                cause: other.to_string(),
            },
        }
    }
}

impl std::fmt::Debug for Shim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shim")
            .field("sandbox", &self.0.sandbox)
            .field("pid", &self.0.pid)
            .finish_non_exhaustive()
    }
}

/// The class of a shim's refusal.
fn class(code: Code) -> ErrorClass {
    match code {
        Code::Cancelled => ErrorClass::Cancelled,
        Code::InvalidArgument | Code::OutOfRange => ErrorClass::InvalidArgument,
        Code::DeadlineExceeded => ErrorClass::DeadlineExceeded,
        Code::NotFound => ErrorClass::NotFound,
        Code::AlreadyExists => ErrorClass::AlreadyExists,
        Code::PermissionDenied => ErrorClass::PermissionDenied,
        Code::ResourceExhausted => ErrorClass::ResourceExhausted,
        Code::FailedPrecondition => ErrorClass::FailedPrecondition,
        Code::Aborted => ErrorClass::Aborted,
        Code::Unimplemented => ErrorClass::Unimplemented,
        Code::Unavailable => ErrorClass::Unavailable,
        Code::DataLoss => ErrorClass::DataLoss,
        Code::Unauthenticated => ErrorClass::Unauthenticated,
        Code::Ok | Code::Unknown | Code::Internal => ErrorClass::Internal,
    }
}
