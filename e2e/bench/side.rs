//! What is compared: nodes of the same kind but for the daemon and the network.

use berth_e2e::cri::Cri;
use berth_e2e::node::{NetworkMode, Node, Runtime, Settings};
use berth_e2e::registry::Registry;
use berth_e2e::{faults, podspec, samples};
use berth_proto::cri as wire;

/// The image of every pod.
pub(crate) const IMAGE: &str = "registry.bench.test/busybox:1";

/// What network the pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// The host's.
    Host,
    /// By CNI plugins.
    Cni,
    /// Berth's own.
    Builtin,
}

/// One side of the comparison.
pub(crate) struct Side {
    /// As the report calls it.
    pub(crate) name: &'static str,
    /// Its node.
    pub(crate) node: Node,
    /// Its client.
    pub(crate) cri: Cri,
    network: Network,
    _registry: Registry,
}

impl Side {
    /// A side with its daemon running and the image pulled.
    pub(crate) async fn start(
        name: &'static str,
        runtime: Runtime,
        network: Network,
    ) -> anyhow::Result<Self> {
        let mode = if network == Network::Cni { NetworkMode::Cni } else { NetworkMode::Builtin };
        let settings = Settings { runtime, quiet: true, ..Settings::network(mode) };
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
        Ok(Self { name, node, cri, network, _registry: registry })
    }

    /// Takes all sides down and says what they left.
    pub(crate) async fn finish(sides: &[Self]) {
        for side in sides {
            if side.network == Network::Cni {
                if let Err(error) = side.node.remove_everything().await {
                    eprintln!("{}: {error:#}", side.name);
                }
                faults::remove_bridge(&side.node);
            }
            for problem in side.node.finish().await {
                eprintln!("{}: {problem}", side.name);
            }
        }
    }

    /// The configuration of its pod of this name.
    pub(crate) fn pod(&self, name: &str) -> wire::PodSandboxConfig {
        match self.network {
            Network::Host => podspec::host_network(&self.node, name),
            Network::Cni | Network::Builtin => podspec::pod(&self.node, name),
        }
    }

    /// The configuration of that pod's container.
    pub(crate) fn container(&self, pod: &wire::PodSandboxConfig) -> wire::ContainerConfig {
        let mut config = podspec::container("main", IMAGE, &["sleep", "100000"]);
        podspec::join(&mut config, pod);
        config
    }
}
