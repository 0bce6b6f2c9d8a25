//! Pod and container configurations as a kubelet would send them.

use crate::node::Node;
use berth_proto::cri as wire;

/// A pod's configuration: unique uid, its log folder, its cgroup parent under the node's.
pub fn pod(node: &Node, name: &str) -> wire::PodSandboxConfig {
    let log_directory = node.dir().join("logs").join(name).display().to_string();
    wire::PodSandboxConfig {
        metadata: Some(wire::PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "e2e".to_owned(),
            attempt: 0,
        }),
        hostname: name.to_owned(),
        log_directory,
        labels: [("app".to_owned(), name.to_owned())].into(),
        linux: Some(wire::LinuxPodSandboxConfig {
            cgroup_parent: node.cgroup().child(name),
            security_context: Some(wire::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(wire::NamespaceMode::Pod)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The same pod in the host's network; a kubelet then sends no hostname.
pub fn host_network(node: &Node, name: &str) -> wire::PodSandboxConfig {
    let mut config = pod(node, name);
    config.hostname.clear();
    if let Some(linux) = &mut config.linux
        && let Some(security) = &mut linux.security_context
    {
        security.namespace_options = Some(namespaces(wire::NamespaceMode::Node));
    }
    config
}

/// Network as asked, a PID namespace per container, IPC of the pod: the kubelet's default.
fn namespaces(network: wire::NamespaceMode) -> wire::NamespaceOption {
    wire::NamespaceOption {
        network: network.into(),
        pid: wire::NamespaceMode::Container.into(),
        ipc: wire::NamespaceMode::Pod.into(),
        ..Default::default()
    }
}

/// A container's configuration with the kubelet's defaults for the rest.
pub fn container(name: &str, image: &str, command: &[&str]) -> wire::ContainerConfig {
    wire::ContainerConfig {
        metadata: Some(wire::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
        image: Some(wire::ImageSpec { image: image.to_owned(), ..Default::default() }),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        log_path: format!("{name}.log"),
        linux: Some(wire::LinuxContainerConfig {
            security_context: Some(wire::LinuxContainerSecurityContext {
                namespace_options: Some(namespaces(wire::NamespaceMode::Pod)),
                seccomp: Some(wire::SecurityProfile {
                    profile_type: wire::security_profile::ProfileType::RuntimeDefault.into(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            resources: Some(wire::LinuxContainerResources::default()),
        }),
        ..Default::default()
    }
}

/// The security context of a container, made if it has none.
pub fn security(config: &mut wire::ContainerConfig) -> &mut wire::LinuxContainerSecurityContext {
    let linux = config.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default()
}

/// Gives a container the namespaces that its pod was asked to have.
pub fn join(config: &mut wire::ContainerConfig, pod: &wire::PodSandboxConfig) {
    let linux = pod.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    if let Some(options) = linux.and_then(|security| security.namespace_options.clone()) {
        security(config).namespace_options = Some(options);
    }
}

/// The same container with these resources.
pub fn with_resources(
    mut config: wire::ContainerConfig,
    resources: wire::LinuxContainerResources,
) -> wire::ContainerConfig {
    if let Some(linux) = &mut config.linux {
        linux.resources = Some(resources);
    }
    config
}

/// The log of a container of a pod.
pub fn log(node: &Node, pod: &str, container: &str) -> std::path::PathBuf {
    node.dir().join("logs").join(pod).join(format!("{container}.log"))
}
