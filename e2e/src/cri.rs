//! A CRI client over the node's socket, for calls that crictl cannot make or would hide.

use anyhow::Context;
use berth_proto::cri as wire;
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use wire::image_service_client::ImageServiceClient;
use wire::runtime_service_client::RuntimeServiceClient;

/// Both services of one node.
#[derive(Clone)]
pub struct Cri {
    /// Pods and containers.
    pub runtime: RuntimeServiceClient<Channel>,
    /// Images.
    pub image: ImageServiceClient<Channel>,
}

/// What a call gives back.
pub type Answer<T> = Result<T, Status>;

/// The size of a message that a kubelet accepts.
const MESSAGE: usize = 16 << 20;

impl Cri {
    /// Connects; afterwards the channel reconnects by itself.
    pub async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let path: PathBuf = socket.to_owned();
        let connector = service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint
            .connect_with_connector(connector)
            .await
            .with_context(|| format!("connecting to {}", socket.display()))?;
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE),
            image: ImageServiceClient::new(channel).max_decoding_message_size(MESSAGE),
        })
    }

    /// Version.
    pub async fn version(mut self) -> Answer<wire::VersionResponse> {
        Ok(self.runtime.version(wire::VersionRequest::default()).await?.into_inner())
    }

    /// Status; verbose or not.
    pub async fn status(&mut self, verbose: bool) -> Answer<wire::StatusResponse> {
        Ok(self.runtime.status(wire::StatusRequest { verbose }).await?.into_inner())
    }

    /// RunPodSandbox with the default handler; the id.
    pub async fn run_pod(&mut self, config: &wire::PodSandboxConfig) -> Answer<String> {
        let request =
            wire::RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: String::new() };
        Ok(self.runtime.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id)
    }

    /// StopPodSandbox.
    pub async fn stop_pod(&mut self, id: &str) -> Answer<()> {
        let request = wire::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime.stop_pod_sandbox(request).await.map(drop)
    }

    /// RemovePodSandbox.
    pub async fn remove_pod(&mut self, id: &str) -> Answer<()> {
        let request = wire::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime.remove_pod_sandbox(request).await.map(drop)
    }

    /// PodSandboxStatus.
    pub async fn pod(&mut self, id: &str) -> Answer<wire::PodSandboxStatus> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer = self.runtime.pod_sandbox_status(request).await?.into_inner();
        answer.status.ok_or_else(|| Status::internal("PodSandboxStatus without a status"))
    }

    /// ListPodSandbox without a filter.
    pub async fn pods(&mut self) -> Answer<Vec<wire::PodSandbox>> {
        let request = wire::ListPodSandboxRequest::default();
        Ok(self.runtime.list_pod_sandbox(request).await?.into_inner().items)
    }

    /// CreateContainer; the id.
    pub async fn create(
        &mut self,
        pod: &str,
        config: &wire::ContainerConfig,
        pod_config: &wire::PodSandboxConfig,
    ) -> Answer<String> {
        let request = wire::CreateContainerRequest {
            pod_sandbox_id: pod.to_owned(),
            config: Some(config.clone()),
            sandbox_config: Some(pod_config.clone()),
        };
        Ok(self.runtime.create_container(request).await?.into_inner().container_id)
    }

    /// StartContainer.
    pub async fn start(&mut self, id: &str) -> Answer<()> {
        let request = wire::StartContainerRequest { container_id: id.to_owned() };
        self.runtime.start_container(request).await.map(drop)
    }

    /// StopContainer with a grace period in seconds.
    pub async fn stop(&mut self, id: &str, timeout: i64) -> Answer<()> {
        let request = wire::StopContainerRequest { container_id: id.to_owned(), timeout };
        self.runtime.stop_container(request).await.map(drop)
    }

    /// RemoveContainer.
    pub async fn remove(&mut self, id: &str) -> Answer<()> {
        let request = wire::RemoveContainerRequest { container_id: id.to_owned() };
        self.runtime.remove_container(request).await.map(drop)
    }

    /// ContainerStatus.
    pub async fn container(&mut self, id: &str) -> Answer<wire::ContainerStatus> {
        let request = wire::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer = self.runtime.container_status(request).await?.into_inner();
        answer.status.ok_or_else(|| Status::internal("ContainerStatus without a status"))
    }

    /// ListContainers without a filter.
    pub async fn containers(&mut self) -> Answer<Vec<wire::Container>> {
        let request = wire::ListContainersRequest::default();
        Ok(self.runtime.list_containers(request).await?.into_inner().containers)
    }

    /// ExecSync with a time-out in seconds (0: none).
    pub async fn exec(&mut self, id: &str, command: &[&str], timeout: i64) -> Answer<wire::ExecSyncResponse> {
        let cmd = command.iter().map(|word| (*word).to_owned()).collect();
        let request = wire::ExecSyncRequest { container_id: id.to_owned(), cmd, timeout };
        Ok(self.runtime.exec_sync(request).await?.into_inner())
    }

    /// ContainerStats.
    pub async fn stats(&mut self, id: &str) -> Answer<wire::ContainerStats> {
        let request = wire::ContainerStatsRequest { container_id: id.to_owned() };
        let answer = self.runtime.container_stats(request).await?.into_inner();
        answer.stats.ok_or_else(|| Status::internal("ContainerStats without stats"))
    }

    /// PullImage without credentials; the image ref.
    pub async fn pull(&mut self, image: &str) -> Answer<String> {
        self.pull_as(image, None).await
    }

    /// PullImage; the image ref.
    pub async fn pull_as(&mut self, image: &str, auth: Option<wire::AuthConfig>) -> Answer<String> {
        let spec = wire::ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = wire::PullImageRequest { image: Some(spec), auth, sandbox_config: None };
        Ok(self.image.pull_image(request).await?.into_inner().image_ref)
    }

    /// ImageStatus; None where the image is not there.
    pub async fn image_status(&mut self, image: &str) -> Answer<Option<wire::Image>> {
        let spec = wire::ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = wire::ImageStatusRequest { image: Some(spec), verbose: false };
        Ok(self.image.image_status(request).await?.into_inner().image)
    }

    /// ListImages without a filter.
    pub async fn images(&mut self) -> Answer<Vec<wire::Image>> {
        let request = wire::ListImagesRequest::default();
        Ok(self.image.list_images(request).await?.into_inner().images)
    }

    /// RemoveImage.
    pub async fn remove_image(&mut self, image: &str) -> Answer<()> {
        let spec = wire::ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = wire::RemoveImageRequest { image: Some(spec) };
        self.image.remove_image(request).await.map(drop)
    }
}
