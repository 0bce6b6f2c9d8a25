//! The verbs of the table: how each is called, and what must be true after it was called again.

use super::scene::Scene;
use anyhow::{Context as _, Result};
use berth_e2e::check;
use berth_e2e::cri::Cri;
use berth_e2e::harness::{Bed, REGISTRY};
use berth_e2e::image::{Image, ImageBuilder, Layer};
use berth_e2e::podspec;
use berth_proto::cri as wire;
use tonic::{Code, Status};

/// A verb that takes steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    PullImage,
    RunPodSandbox,
    CreateContainer,
    StartContainer,
    ExecSync,
    StopContainer,
    RemoveContainer,
    StopPodSandbox,
    RemovePodSandbox,
}

/// One call, ready to be made anywhere.
#[derive(Clone)]
pub(super) struct Call {
    verb: Verb,
    name: String,
    config: wire::PodSandboxConfig,
    pod: String,
    container: String,
    wish: wire::ContainerConfig,
}

/// An image of one layer that no other image has.
pub(super) fn unique_image(name: &str) -> Result<Image> {
    let layer = Layer::new().file("name", 0o644, name.to_owned()).file("more", 0o644, vec![7; 200_000]);
    Ok(ImageBuilder::new().layer(layer).build())
}

impl Verb {
    pub(super) const ALL: [Self; 9] = [
        Self::PullImage,
        Self::RunPodSandbox,
        Self::CreateContainer,
        Self::StartContainer,
        Self::ExecSync,
        Self::StopContainer,
        Self::RemoveContainer,
        Self::StopPodSandbox,
        Self::RemovePodSandbox,
    ];

    pub(super) fn call(self, bed: &Bed, scene: &Scene) -> Call {
        let pod = scene.pod.as_ref().map(|pod| pod.id.clone()).unwrap_or_default();
        let container = scene.container.clone().unwrap_or_default();
        let mut wish = Scene::wish(bed);
        podspec::join(&mut wish, &scene.config);
        let (name, config) = (scene.name.clone(), scene.config.clone());
        Call { verb: self, name, config, pod, container, wish }
    }
}

impl Call {
    /// Whether its answer is the id of something new.
    pub(super) fn makes(&self) -> bool {
        matches!(self.verb, Verb::RunPodSandbox | Verb::CreateContainer)
    }

    /// Whether it only ends something, so that it must succeed whatever is lost.
    pub(super) fn ends(&self) -> bool {
        let ends = [Verb::StopContainer, Verb::RemoveContainer, Verb::StopPodSandbox, Verb::RemovePodSandbox];
        ends.contains(&self.verb) || self.verb == Verb::PullImage
    }

    /// Makes the call; an id where one comes back.
    pub(super) async fn make(&self, mut cri: Cri) -> Result<String, Status> {
        let nothing = |()| String::new();
        match self.verb {
            Verb::PullImage => cri.pull(&format!("{REGISTRY}/{}:1", self.name)).await,
            Verb::RunPodSandbox => cri.run_pod(&self.config).await,
            Verb::CreateContainer => cri.create(&self.pod, &self.wish, &self.config).await,
            Verb::StartContainer => cri.start(&self.container).await.map(nothing),
            Verb::ExecSync => exec(&mut cri, &self.container).await,
            Verb::StopContainer => cri.stop(&self.container, 0).await.map(nothing),
            Verb::RemoveContainer => cri.remove(&self.container).await.map(nothing),
            Verb::StopPodSandbox => cri.stop_pod(&self.pod).await.map(nothing),
            Verb::RemovePodSandbox => cri.remove_pod(&self.pod).await.map(nothing),
        }
    }

    /// What a kubelet does after a failure: it asks again, for things to be made under the next attempt.
    pub(super) async fn again(&mut self, bed: &Bed) -> Result<String> {
        let mut last = None;
        for _ in 0..5 {
            match self.make(bed.cri().await?).await {
                Ok(id) => return Ok(id),
                Err(status) if self.started(bed, &status).await? => return Ok(String::new()),
                Err(status) => {
                    if status.code() == Code::AlreadyExists {
                        self.next_attempt();
                    }
                    last = Some(status);
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        Err(last.context("no try")?.into())
    }

    fn next_attempt(&mut self) {
        let container = (self.verb == Verb::CreateContainer).then_some(&mut self.wish);
        if let Some(metadata) = container.and_then(|wish| wish.metadata.as_mut()) {
            metadata.attempt += 1;
        } else if let Some(metadata) = self.config.metadata.as_mut() {
            metadata.attempt += 1;
        }
    }

    /// A container that runs, or could not and says so, is not started again.
    async fn started(&self, bed: &Bed, status: &Status) -> Result<bool> {
        if self.verb != Verb::StartContainer || status.code() == Code::Unavailable {
            return Ok(false);
        }
        let state = bed.cri().await?.container(&self.container).await?.state();
        Ok(matches!(state, wire::ContainerState::ContainerRunning | wire::ContainerState::ContainerExited))
    }

    /// Nothing was made twice.
    pub(super) async fn once(&self, bed: &Bed) -> Result<()> {
        let mut cri = bed.cri().await?;
        let ready = |pod: &&wire::PodSandbox| {
            let named = pod.metadata.as_ref().is_some_and(|metadata| metadata.name == self.name);
            named && pod.state == i32::from(wire::PodSandboxState::SandboxReady)
        };
        let pods = cri.pods().await?;
        let pods: Vec<_> = pods.iter().filter(ready).collect();
        check!(pods.len() <= 1, "made twice: {pods:?}");
        let all = cri.containers().await?;
        let mut keys: Vec<_> = all.iter().map(|c| (&c.pod_sandbox_id, &c.metadata)).collect();
        let count = keys.len();
        keys.dedup();
        check!(keys.len() == count, "made twice: {all:?}");
        Ok(())
    }
}

async fn exec(cri: &mut Cri, container: &str) -> Result<String, Status> {
    let answer = cri.exec(container, &["sh", "-c", "echo here; exit 3"], 20).await?;
    if answer.exit_code != 3 || answer.stdout != b"here\n" {
        return Err(Status::data_loss(format!("exec answered {answer:?}")));
    }
    Ok(String::new())
}
