//! What is compared: nodes of the same kind but for the daemon and the network.

use berth_e2e::cri::Cri;
use berth_e2e::node::{Node, Runtime, Settings};
use berth_e2e::registry::Registry;
use berth_e2e::{podspec, samples};
use berth_proto::cri as wire;

/// The image of every pod.
pub(crate) const IMAGE: &str = "registry.bench.test/busybox:1";

/// One side of the comparison.
pub(crate) struct Side {
    /// As the report calls it.
    pub(crate) name: &'static str,
    /// Its node.
    pub(crate) node: Node,
    /// Its client.
    pub(crate) cri: Cri,
    /// Whether its pods use the host's network.
    host_network: bool,
    _registry: Registry,
}

impl Side {
    /// All sides, each with its daemon running and the image pulled.
    pub(crate) async fn all() -> anyhow::Result<Vec<Self>> {
        Ok(vec![
            Self::start("containerd, host network", Runtime::Containerd, true).await?,
            Self::start("Berth, host network", Runtime::Berth, true).await?,
            Self::start("Berth, built-in network", Runtime::Berth, false).await?,
        ])
    }

    async fn start(name: &'static str, runtime: Runtime, host_network: bool) -> anyhow::Result<Self> {
        let settings = Settings { runtime, quiet: true, ..Settings::default() };
        let node = Node::prepare(settings)?;
        let registry = Registry::start().await?;
        registry.push("busybox", "1", &samples::busybox()?);
        registry.push("pause", "3.10", &samples::pause());
        node.mirror("registry.bench.test", &registry)?;
        node.mirror("registry.k8s.io", &registry)?;
        node.start_daemon().await?;
        let mut cri = node.cri().await?;
        cri.pull(IMAGE).await?;
        if runtime == Runtime::Containerd {
            cri.pull("registry.k8s.io/pause:3.10").await?;
        }
        Ok(Self { name, node, cri, host_network, _registry: registry })
    }

    /// The configuration of its pod of this name.
    pub(crate) fn pod(&self, name: &str) -> wire::PodSandboxConfig {
        if self.host_network {
            podspec::host_network(&self.node, name)
        } else {
            podspec::pod(&self.node, name)
        }
    }

    /// The configuration of that pod's container.
    pub(crate) fn container(&self, pod: &wire::PodSandboxConfig) -> wire::ContainerConfig {
        let mut config = podspec::container("main", IMAGE, &["sleep", "100000"]);
        podspec::join(&mut config, pod);
        config
    }
}
