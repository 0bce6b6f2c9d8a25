//! Calls about pod sandboxes.

use crate::app::App;
use crate::cri::convert::sandbox as words;
use crate::cri::required;
use crate::service::sandbox;
use berth_core::Result;
use berth_proto::cri::*;

pub(super) async fn run_pod_sandbox(
    app: &App,
    request: RunPodSandboxRequest,
) -> Result<RunPodSandboxResponse> {
    let config = words::config(required(request.config, "config")?)?;
    let id = sandbox::run(&app.pods, config, &request.runtime_handler).await?;
    Ok(RunPodSandboxResponse { pod_sandbox_id: id.to_string() })
}

pub(super) async fn stop_pod_sandbox(
    app: &App,
    request: StopPodSandboxRequest,
) -> Result<StopPodSandboxResponse> {
    sandbox::stop(&app.pods, &request.pod_sandbox_id).await?;
    Ok(StopPodSandboxResponse {})
}

pub(super) async fn remove_pod_sandbox(
    app: &App,
    request: RemovePodSandboxRequest,
) -> Result<RemovePodSandboxResponse> {
    sandbox::remove(&app.pods, &request.pod_sandbox_id).await?;
    Ok(RemovePodSandboxResponse {})
}

pub(super) async fn pod_sandbox_status(
    app: &App,
    request: PodSandboxStatusRequest,
) -> Result<PodSandboxStatusResponse> {
    let found = sandbox::status(&app.pods, &request.pod_sandbox_id)?;
    Ok(words::status(&found, request.verbose))
}

pub(super) async fn list_pod_sandbox(
    app: &App,
    request: ListPodSandboxRequest,
) -> Result<ListPodSandboxResponse> {
    let found = sandbox::list(&app.pods, &words::filter(request.filter));
    Ok(ListPodSandboxResponse { items: found.iter().map(|record| words::item(record)).collect() })
}

pub(super) async fn pod_sandbox_stats(
    app: &App,
    request: PodSandboxStatsRequest,
) -> Result<PodSandboxStatsResponse> {
    let found = sandbox::stats(&app.pods, &request.pod_sandbox_id).await?;
    Ok(PodSandboxStatsResponse { stats: Some(words::stats(&found)) })
}

pub(super) async fn list_pod_sandbox_stats(
    app: &App,
    request: ListPodSandboxStatsRequest,
) -> Result<ListPodSandboxStatsResponse> {
    let found = sandbox::list_stats(&app.pods, &words::stats_filter(request.filter)).await;
    Ok(ListPodSandboxStatsResponse { stats: found.iter().map(words::stats).collect() })
}

pub(super) async fn update_pod_sandbox_resources(
    app: &App,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    sandbox::update(&app.pods, &request.pod_sandbox_id)?;
    Ok(UpdatePodSandboxResourcesResponse {})
}
