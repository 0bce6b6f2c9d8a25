//! The pod's own namespaces, made once and held by descriptor: no pause container.

mod holder;
mod namespace;
mod sysctl;

pub(crate) use holder::main as holder_main;

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use berth_proto::shim as wire;

use crate::blocking;
use crate::error::CallError;
use crate::pod::Pod;
use holder::Holder;
use namespace::Made;

/// What StartSandbox has made.
#[derive(Debug)]
pub(crate) struct Sandbox {
    ipc: Option<OwnedFd>,
    uts: Option<OwnedFd>,
    holder: Option<Holder>,
}

/// Makes the namespaces, or tells of those that were made.
pub(crate) async fn start(
    pod: Arc<Pod>,
    request: wire::StartSandboxRequest,
) -> Result<wire::StartSandboxResponse, CallError> {
    let mut place = pod.sandbox.lock().await;
    if let Some(sandbox) = &*place {
        return Ok(sandbox.describe());
    }
    if !request.hostname.is_empty() && !request.new_uts {
        return Err(CallError::request(
            "hostname",
            "needs new_uts: the host's own name is not for pods to change",
        ));
    }
    let shared_pid = request.shared_pid;
    let made = blocking::run(move || namespace::make(request)).await?;
    let holder = if shared_pid { Some(Holder::start(&pod).await?) } else { None };
    let Made { ipc, uts } = made;
    let sandbox = Sandbox { ipc, uts, holder };
    let answer = sandbox.describe();
    *place = Some(sandbox);
    Ok(answer)
}

impl Sandbox {
    fn describe(&self) -> wire::StartSandboxResponse {
        let path = |fd: Option<&OwnedFd>| {
            fd.map_or_else(String::new, |fd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()))
        };
        wire::StartSandboxResponse {
            ipc_path: path(self.ipc.as_ref()),
            uts_path: path(self.uts.as_ref()),
            pid_path: path(self.holder.as_ref().map(Holder::namespace)),
            holder_pid: self.holder.as_ref().map_or(0, Holder::pid),
        }
    }

    /// Ends the holder; the namespaces go with their descriptors.
    pub(crate) async fn end(self) {
        if let Some(holder) = self.holder {
            holder.end().await;
        }
    }
}
