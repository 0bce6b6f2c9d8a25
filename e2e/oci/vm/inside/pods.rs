//! Pods below slices, as a kubelet with the systemd driver asks for them.

use super::server::Server;
use anyhow::{Context as _, Result};
use berth_e2e::podspec;
use berth_proto::cri as wire;

/// A pod's configuration with this cgroup parent.
pub(super) fn config(parent: &str, name: &str) -> wire::PodSandboxConfig {
    let namespaces =
        wire::NamespaceOption { pid: wire::NamespaceMode::Container.into(), ..Default::default() };
    wire::PodSandboxConfig {
        metadata: Some(wire::PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "guest".to_owned(),
            attempt: 0,
        }),
        hostname: name.to_owned(),
        log_directory: format!("/var/log/berth-{name}"),
        linux: Some(wire::LinuxPodSandboxConfig {
            cgroup_parent: parent.to_owned(),
            security_context: Some(wire::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Busybox, pulled.
pub(super) async fn image(server: &Server) -> Result<String> {
    let name = "registry.guest.test/busybox:1";
    server.cri().await?.pull(name).await.context("pulling busybox")?;
    Ok(name.to_owned())
}

/// A pod and a container of 64 MiB and half a processor in it; their ids.
pub(super) async fn start_in(
    server: &Server,
    parent: &str,
    name: &str,
    command: &[&str],
) -> Result<(String, String)> {
    let mut cri = server.cri().await?;
    let image = image(server).await?;
    let pod_config = config(parent, name);
    let pod = cri.run_pod(&pod_config).await.context("RunPodSandbox")?;
    let resources = wire::LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: 50_000,
        memory_limit_in_bytes: 64 << 20,
        memory_swap_limit_in_bytes: 64 << 20,
        ..Default::default()
    };
    let container = podspec::with_resources(podspec::container("c", &image, command), resources);
    let id = cri.create(&pod, &container, &pod_config).await.context("CreateContainer")?;
    cri.start(&id).await.context("StartContainer")?;
    Ok((pod, id))
}
