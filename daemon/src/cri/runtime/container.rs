//! Calls about containers.

use crate::app::App;
use crate::cri::convert::{container as words, sandbox};
use crate::cri::required;
use crate::service::container;
use berth_core::{Error, Result};
use berth_proto::cri::*;
use std::time::Duration;

pub(super) async fn create_container(
    app: &App,
    request: CreateContainerRequest,
) -> Result<CreateContainerResponse> {
    let config = words::config(required(request.config, "config")?)?;
    let id = container::create(&app.pods, &request.pod_sandbox_id, config).await?;
    Ok(CreateContainerResponse { container_id: id.to_string() })
}

pub(super) async fn start_container(
    app: &App,
    request: StartContainerRequest,
) -> Result<StartContainerResponse> {
    container::start(&app.pods, &request.container_id).await?;
    Ok(StartContainerResponse {})
}

pub(super) async fn stop_container(
    app: &App,
    request: StopContainerRequest,
) -> Result<StopContainerResponse> {
    container::stop(&app.pods, &request.container_id, seconds(request.timeout, "timeout")?).await?;
    Ok(StopContainerResponse {})
}

pub(super) async fn remove_container(
    app: &App,
    request: RemoveContainerRequest,
) -> Result<RemoveContainerResponse> {
    container::remove(&app.pods, &request.container_id).await?;
    Ok(RemoveContainerResponse {})
}

pub(super) async fn list_containers(
    app: &App,
    request: ListContainersRequest,
) -> Result<ListContainersResponse> {
    let found = container::list(&app.pods, &words::filter(request.filter));
    Ok(ListContainersResponse { containers: found.iter().map(|record| words::item(record)).collect() })
}

pub(super) async fn container_status(
    app: &App,
    request: ContainerStatusRequest,
) -> Result<ContainerStatusResponse> {
    let found = container::status(&app.pods, &request.container_id)?;
    let info = if request.verbose { words::info(&found) } else { Default::default() };
    Ok(ContainerStatusResponse { status: Some(words::status(&found)), info })
}

pub(super) async fn exec_sync(app: &App, request: ExecSyncRequest) -> Result<ExecSyncResponse> {
    let timeout = seconds(request.timeout, "timeout")?;
    let done = container::exec_sync(&app.pods, &request.container_id, request.cmd, timeout).await?;
    Ok(ExecSyncResponse { stdout: done.stdout, stderr: done.stderr, exit_code: done.exit_code })
}

pub(super) async fn reopen_container_log(
    app: &App,
    request: ReopenContainerLogRequest,
) -> Result<ReopenContainerLogResponse> {
    container::reopen_log(&app.pods, &request.container_id).await?;
    Ok(ReopenContainerLogResponse {})
}

pub(super) async fn update_container_resources(
    app: &App,
    request: UpdateContainerResourcesRequest,
) -> Result<UpdateContainerResourcesResponse> {
    let limits = sandbox::resources(&required(request.linux, "linux")?);
    container::update(&app.pods, &request.container_id, limits).await?;
    Ok(UpdateContainerResourcesResponse {})
}

pub(super) async fn container_stats(
    app: &App,
    request: ContainerStatsRequest,
) -> Result<ContainerStatsResponse> {
    let found = container::stats(&app.pods, &request.container_id).await?;
    Ok(ContainerStatsResponse { stats: Some(words::stats(&found)) })
}

pub(super) async fn list_container_stats(
    app: &App,
    request: ListContainerStatsRequest,
) -> Result<ListContainerStatsResponse> {
    let found = container::list_stats(&app.pods, &words::stats_filter(request.filter)).await;
    Ok(ListContainerStatsResponse { stats: found.iter().map(words::stats).collect() })
}

/// Seconds as CRI gives them; negative ones are nobody's.
fn seconds(value: i64, field: &str) -> Result<Duration> {
    let seconds =
        u64::try_from(value).map_err(|_| Error::invalid(format!("{field}: {value} is negative")))?;
    Ok(Duration::from_secs(seconds))
}
