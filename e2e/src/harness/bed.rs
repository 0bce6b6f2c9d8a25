//! The usual surroundings of a test: a node, a registry with sample images, and short words for both.

use crate::cri::Cri;
use crate::node::{Node, Runtime};
use crate::podspec;
use crate::registry::Registry;
use crate::samples;
use anyhow::{Context, bail};
use berth_proto::cri as wire;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name under which tests pull; hosts.toml leads it to the registry on loopback.
pub const REGISTRY: &str = "registry.e2e.test";

/// A node and a registry.
pub struct Bed {
    /// The node.
    pub node: Arc<Node>,
    /// The registry.
    pub registry: Registry,
}

/// A pod that was started by a test.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its id.
    pub id: String,
    /// What it was asked to be.
    pub config: wire::PodSandboxConfig,
}

impl Bed {
    /// Serves the sample images and points the node at them.
    pub(super) fn lay(node: Arc<Node>, registry: Registry) -> anyhow::Result<Self> {
        registry.push("busybox", "1", &samples::busybox()?);
        node.mirror(REGISTRY, &registry)?;
        if node.settings().runtime == Runtime::Containerd {
            registry.push("pause", "3.10", &samples::pause());
            node.mirror("registry.k8s.io", &registry)?;
        }
        Ok(Self { node, registry })
    }

    /// `registry.e2e.test/<name>`.
    pub fn image(&self, name: &str) -> String {
        format!("{REGISTRY}/{name}")
    }

    /// The busybox image, pulled.
    pub async fn busybox(&self) -> anyhow::Result<String> {
        let name = self.image("busybox:1");
        self.cri().await?.pull(&name).await.context("pulling busybox")?;
        Ok(name)
    }

    /// A client.
    pub async fn cri(&self) -> anyhow::Result<Cri> {
        self.node.cri().await
    }

    /// Runs a pod as a kubelet would ask for it.
    pub async fn pod(&self, name: &str) -> anyhow::Result<Pod> {
        self.run_pod(podspec::pod(&self.node, name)).await
    }

    /// Runs a pod of one's own.
    pub async fn run_pod(&self, config: wire::PodSandboxConfig) -> anyhow::Result<Pod> {
        let id = self.cri().await?.run_pod(&config).await.context("RunPodSandbox")?;
        self.node.remember(&id);
        Ok(Pod { id, config })
    }

    /// Creates a container with its pod's namespaces; its id.
    pub async fn create(&self, pod: &Pod, config: &wire::ContainerConfig) -> anyhow::Result<String> {
        let mut config = config.clone();
        podspec::join(&mut config, &pod.config);
        let created = self.cri().await?.create(&pod.id, &config, &pod.config).await;
        let id = created.context("CreateContainer")?;
        self.node.remember(&id);
        Ok(id)
    }

    /// Creates and starts a container; its id.
    pub async fn start(&self, pod: &Pod, config: &wire::ContainerConfig) -> anyhow::Result<String> {
        let id = self.create(pod, config).await?;
        self.cri().await?.start(&id).await.context("StartContainer")?;
        Ok(id)
    }

    /// Starts a busybox container with a command; its id.
    pub async fn busybox_in(&self, pod: &Pod, name: &str, script: &str) -> anyhow::Result<String> {
        let image = self.busybox().await?;
        self.start(pod, &podspec::container(name, &image, &["sh", "-c", script])).await
    }

    /// What a command in a container prints; another exit code than 0 is an error.
    pub async fn exec(&self, id: &str, script: &str) -> anyhow::Result<String> {
        let answer = self.cri().await?.exec(id, &["sh", "-c", script], 20).await?;
        let (out, err) = (text(&answer.stdout), text(&answer.stderr));
        if answer.exit_code != 0 {
            bail!("`{script}` ended with {}: {out}{err}", answer.exit_code);
        }
        Ok(out)
    }

    /// Waits until a container has ended; its last status.
    pub async fn ended(&self, id: &str) -> anyhow::Result<wire::ContainerStatus> {
        let begun = Instant::now();
        let mut cri = self.cri().await?;
        loop {
            let status = cri.container(id).await?;
            if status.state() == wire::ContainerState::ContainerExited {
                return Ok(status);
            }
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("container {id} is still {:?}", status.state());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The text of a container's log, without the CRI prefixes, when it has at least so many lines.
    pub async fn log(&self, pod: &Pod, name: &str, lines: usize) -> anyhow::Result<String> {
        let pod = pod.config.metadata.as_ref().map_or("", |m| m.name.as_str());
        let path = podspec::log(&self.node, pod, name);
        let begun = Instant::now();
        loop {
            let raw = std::fs::read_to_string(&path).unwrap_or_default();
            if raw.lines().count() >= lines {
                let bare = raw.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
                return Ok(bare.collect::<Vec<_>>().join("\n"));
            }
            if begun.elapsed() > Duration::from_secs(10) {
                bail!("{} has not {lines} lines: {raw:?}", path.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Bytes of an answer as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
