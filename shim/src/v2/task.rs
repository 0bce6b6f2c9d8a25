//! The calls of containerd's task service, one file each.

mod close_io;
mod connect;
mod create;
mod delete;
mod exec;
mod kill;
mod pause;
mod pids;
mod resize_pty;
mod resume;
mod shutdown;
mod start;
mod state;
mod stats;
mod update;
mod wait;

use std::sync::Arc;

use berth_proto::containerd::{self as wire, TaskService};
use berth_proto::ttrpc::Status;

use super::shim::Shim;

/// The service.
pub(super) struct Tasks {
    pub(super) shim: Arc<Shim>,
}

impl TaskService for Tasks {
    async fn state(&self, request: wire::ProcessRequest) -> Result<wire::StateResponse, Status> {
        Ok(state::state(&self.shim, request).await?)
    }

    async fn create(&self, request: wire::CreateTaskRequest) -> Result<wire::CreateTaskResponse, Status> {
        Ok(create::create(self.shim.clone(), request).await?)
    }

    async fn start(&self, request: wire::ProcessRequest) -> Result<wire::StartResponse, Status> {
        Ok(start::start(self.shim.clone(), request).await?)
    }

    async fn delete(&self, request: wire::ProcessRequest) -> Result<wire::DeleteResponse, Status> {
        Ok(delete::delete(&self.shim, request).await?)
    }

    async fn pids(&self, request: wire::ContainerRequest) -> Result<wire::PidsResponse, Status> {
        Ok(pids::pids(&self.shim, request).await?)
    }

    async fn pause(&self, request: wire::ContainerRequest) -> Result<wire::Empty, Status> {
        Ok(pause::pause(&self.shim, request).await?)
    }

    async fn resume(&self, request: wire::ContainerRequest) -> Result<wire::Empty, Status> {
        Ok(resume::resume(&self.shim, request).await?)
    }

    async fn kill(&self, request: wire::KillRequest) -> Result<wire::Empty, Status> {
        Ok(kill::kill(&self.shim, request).await?)
    }

    async fn exec(&self, request: wire::ExecProcessRequest) -> Result<wire::Empty, Status> {
        Ok(exec::exec(&self.shim, request)?)
    }

    async fn resize_pty(&self, request: wire::ResizePtyRequest) -> Result<wire::Empty, Status> {
        Ok(resize_pty::resize_pty(&self.shim, request)?)
    }

    async fn close_io(&self, request: wire::CloseIoRequest) -> Result<wire::Empty, Status> {
        Ok(close_io::close_io(&self.shim, request)?)
    }

    async fn update(&self, request: wire::UpdateTaskRequest) -> Result<wire::Empty, Status> {
        Ok(update::update(&self.shim, request).await?)
    }

    async fn wait(&self, request: wire::ProcessRequest) -> Result<wire::WaitResponse, Status> {
        Ok(wait::wait(&self.shim, request).await?)
    }

    async fn stats(&self, request: wire::ContainerRequest) -> Result<wire::StatsResponse, Status> {
        Ok(stats::stats(&self.shim, request).await?)
    }

    async fn connect(&self, request: wire::ContainerRequest) -> Result<wire::ConnectResponse, Status> {
        Ok(connect::connect(&self.shim, request))
    }

    async fn shutdown(&self, _request: wire::ShutdownRequest) -> Result<wire::Empty, Status> {
        shutdown::shutdown(&self.shim);
        Ok(wire::Empty {})
    }
}
