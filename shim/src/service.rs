//! The calls of berth.shim.v1, each one line to whoever does the work.

use std::sync::Arc;
use std::time::Duration;

use berth_proto::shim::{self as wire, ShimService, event};
use berth_proto::ttrpc::Status;

use crate::journal::{Entry, Fact};
use crate::pod::Pod;
use crate::{sandbox, shutdown, task};

/// What this shim can do beyond level 1's calls, sorted.
const FEATURES: [&str; 3] = ["exec-tree-kill", "oom-events", "shared-pid-holder"];

/// Longest wait of one Events call.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The service.
pub(crate) struct Shim {
    /// The pod it serves.
    pub(crate) pod: Arc<Pod>,
}

impl ShimService for Shim {
    async fn info(&self, _request: wire::InfoRequest) -> Result<wire::InfoResponse, Status> {
        self.pod.claimed.send_replace(true);
        Ok(wire::InfoResponse {
            level: wire::LEVEL,
            build: crate::BUILD.to_owned(),
            pid: std::process::id(),
            sandbox_id: self.pod.id.clone(),
            features: FEATURES.map(str::to_owned).to_vec(),
            started_at: self.pod.started_at.nanos(),
        })
    }

    async fn start_sandbox(
        &self,
        request: wire::StartSandboxRequest,
    ) -> Result<wire::StartSandboxResponse, Status> {
        Ok(sandbox::start(self.pod.clone(), request).await?)
    }

    async fn create(&self, request: wire::CreateRequest) -> Result<wire::CreateResponse, Status> {
        Ok(task::create::create(self.pod.clone(), request).await?)
    }

    async fn start(&self, request: wire::StartRequest) -> Result<wire::StartResponse, Status> {
        Ok(task::start::start(self.pod.clone(), request).await?)
    }

    async fn kill(&self, request: wire::KillRequest) -> Result<wire::KillResponse, Status> {
        Ok(task::kill::kill(self.pod.clone(), request).await?)
    }

    async fn delete(&self, request: wire::DeleteRequest) -> Result<wire::DeleteResponse, Status> {
        Ok(task::delete::delete(self.pod.clone(), request).await?)
    }

    async fn list(&self, _request: wire::ListRequest) -> Result<wire::ListResponse, Status> {
        Ok(task::list::list(&self.pod))
    }

    async fn exec_sync(&self, request: wire::ExecSyncRequest) -> Result<wire::ExecSyncResponse, Status> {
        Ok(task::exec_sync::exec_sync(self.pod.clone(), request).await?)
    }

    async fn reopen_log(&self, request: wire::ReopenLogRequest) -> Result<wire::ReopenLogResponse, Status> {
        Ok(task::reopen_log::reopen_log(self.pod.clone(), request).await?)
    }

    async fn update(&self, request: wire::UpdateRequest) -> Result<wire::UpdateResponse, Status> {
        Ok(task::update::update(self.pod.clone(), request).await?)
    }

    async fn events(&self, request: wire::EventsRequest) -> Result<wire::EventsResponse, Status> {
        let wait = Duration::from_millis(request.wait_ms).min(WAIT_MAX);
        let entries = self.pod.journal.beyond(request.acked, wait).await;
        Ok(wire::EventsResponse { events: entries.into_iter().map(event_to_wire).collect() })
    }

    async fn shutdown(&self, _request: wire::ShutdownRequest) -> Result<wire::ShutdownResponse, Status> {
        shutdown::shutdown(&self.pod).await?;
        Ok(wire::ShutdownResponse {})
    }
}

fn event_to_wire(entry: Entry) -> wire::Event {
    let kind = match entry.fact {
        Fact::Exit(exit) => event::Kind::Exit(task::list::exit_to_wire(&exit)),
        Fact::Oom(kills) => event::Kind::Oom(wire::Oom { kills }),
    };
    wire::Event { seq: entry.seq, id: entry.id, at: entry.at.nanos(), kind: Some(kind) }
}
