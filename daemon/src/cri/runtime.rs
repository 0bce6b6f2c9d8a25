//! RuntimeService: one line a call.

mod container;
mod node;
mod sandbox;

use super::subject::About;
use super::{Cost, Cri, missing};
use berth_proto::cri::runtime_service_server::RuntimeService;
use berth_proto::cri::*;
use tokio_stream::Empty;
use tonic::{Request, Response, Status};

/// Writes the whole service out of three lists: calls that work, calls that do not, streams that do not.
macro_rules! runtime_service {
    (
        calls { $($call:ident($request:ident) -> $response:ident: $cost:ident, $name:literal, $verb:path;)* }
        missing { $($gone:ident($gone_request:ident) -> $gone_response:ident: $gone_name:literal;)* }
        missing_streams { $($stream:ident($stream_request:ident) -> $stream_response:ident: $kind:ident, $stream_name:literal;)* }
    ) => {
        #[tonic::async_trait]
        impl RuntimeService for Cri {
            $(async fn $call(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                let request = request.into_inner();
                self.call($name, Cost::$cost, &request.subject(), $verb(&self.app, request)).await
            })*
            $(async fn $gone(&self, _: Request<$gone_request>) -> Result<Response<$gone_response>, Status> {
                Err(missing($gone_name))
            })*
            $(type $kind = Empty<Result<$stream_response, Status>>;
            async fn $stream(&self, _: Request<$stream_request>) -> Result<Response<Self::$kind>, Status> {
                Err(missing($stream_name))
            })*
        }
    };
}

runtime_service! {
    calls {
        version(VersionRequest) -> VersionResponse: Quiet, "Version", node::version;
        status(StatusRequest) -> StatusResponse: Quiet, "Status", node::status;
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse: Quiet, "RuntimeConfig", node::runtime_config;
        update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse: Free, "UpdateRuntimeConfig", node::update_runtime_config;
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse: Expensive, "RunPodSandbox", sandbox::run_pod_sandbox;
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse: Free, "StopPodSandbox", sandbox::stop_pod_sandbox;
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse: Free, "RemovePodSandbox", sandbox::remove_pod_sandbox;
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse: Cheap, "PodSandboxStatus", sandbox::pod_sandbox_status;
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse: Cheap, "ListPodSandbox", sandbox::list_pod_sandbox;
        create_container(CreateContainerRequest) -> CreateContainerResponse: Expensive, "CreateContainer", container::create_container;
        start_container(StartContainerRequest) -> StartContainerResponse: Expensive, "StartContainer", container::start_container;
        stop_container(StopContainerRequest) -> StopContainerResponse: Free, "StopContainer", container::stop_container;
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse: Free, "RemoveContainer", container::remove_container;
        list_containers(ListContainersRequest) -> ListContainersResponse: Cheap, "ListContainers", container::list_containers;
        container_status(ContainerStatusRequest) -> ContainerStatusResponse: Cheap, "ContainerStatus", container::container_status;
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse: Cheap, "UpdateContainerResources", container::update_container_resources;
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse: Quiet, "ReopenContainerLog", container::reopen_container_log;
        exec_sync(ExecSyncRequest) -> ExecSyncResponse: Quiet, "ExecSync", container::exec_sync;
        container_stats(ContainerStatsRequest) -> ContainerStatsResponse: Cheap, "ContainerStats", container::container_stats;
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse: Cheap, "ListContainerStats", container::list_container_stats;
        pod_sandbox_stats(PodSandboxStatsRequest) -> PodSandboxStatsResponse: Cheap, "PodSandboxStats", sandbox::pod_sandbox_stats;
        list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse: Cheap, "ListPodSandboxStats", sandbox::list_pod_sandbox_stats;
        update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse: Cheap, "UpdatePodSandboxResources", sandbox::update_pod_sandbox_resources;
    }
    missing {
        exec(ExecRequest) -> ExecResponse: "Exec";
        attach(AttachRequest) -> AttachResponse: "Attach";
        port_forward(PortForwardRequest) -> PortForwardResponse: "PortForward";
        checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse: "CheckpointContainer";
        checkpoint_pod(CheckpointPodRequest) -> CheckpointPodResponse: "CheckpointPod";
        restore_pod(RestorePodRequest) -> RestorePodResponse: "RestorePod";
        list_metric_descriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse: "ListMetricDescriptors";
        list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse: "ListPodSandboxMetrics";
    }
    missing_streams {
        stream_pod_sandboxes(StreamPodSandboxesRequest) -> StreamPodSandboxesResponse: StreamPodSandboxesStream, "StreamPodSandboxes";
        stream_containers(StreamContainersRequest) -> StreamContainersResponse: StreamContainersStream, "StreamContainers";
        stream_container_stats(StreamContainerStatsRequest) -> StreamContainerStatsResponse: StreamContainerStatsStream, "StreamContainerStats";
        stream_pod_sandbox_stats(StreamPodSandboxStatsRequest) -> StreamPodSandboxStatsResponse: StreamPodSandboxStatsStream, "StreamPodSandboxStats";
        get_container_events(GetEventsRequest) -> ContainerEventResponse: GetContainerEventsStream, "GetContainerEvents";
        stream_pod_sandbox_metrics(StreamPodSandboxMetricsRequest) -> StreamPodSandboxMetricsResponse: StreamPodSandboxMetricsStream, "StreamPodSandboxMetrics";
    }
}
