//! CreateContainer and the filters: wire words to plain values.

use super::super::sandbox::{mappings, namespaces, profile, resources};
use super::signal;
use crate::container::{
    ContainerConfig, ContainerSecurity, Device, GroupsPolicy, ImageSpec, Mount, Propagation,
};
use crate::service::container::{Filter, State};
use berth_core::{Error, Result};
use berth_proto::cri;

/// What a container is asked to be.
///
/// # Errors
/// Names the field that is missing or unknown.
pub fn config(config: cri::ContainerConfig) -> Result<ContainerConfig> {
    let metadata = config.metadata.ok_or_else(|| Error::invalid("config.metadata: is missing"))?;
    let spec = config.image.ok_or_else(|| Error::invalid("config.image: is missing"))?;
    let linux = config.linux.unwrap_or_default();
    let limits = linux.resources.as_ref().map(resources).unwrap_or_default();
    Ok(ContainerConfig {
        name: metadata.name,
        attempt: metadata.attempt,
        image: image(spec),
        command: config.command,
        args: config.args,
        working_dir: config.working_dir,
        envs: config.envs.into_iter().map(|pair| (pair.key, pair.value.into())).collect(),
        mounts: config.mounts.into_iter().map(mount).collect::<Result<_>>()?,
        devices: config.devices.into_iter().map(device).collect(),
        labels: config.labels.into_iter().collect(),
        annotations: config.annotations.into_iter().collect(),
        log_path: config.log_path,
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        resources: limits,
        security: security(linux.security_context.unwrap_or_default())?,
        cdi_devices: config.cdi_devices.into_iter().map(|device| device.name).collect(),
        stop_signal: signal::from_wire(config.stop_signal)?,
    })
}

fn image(spec: cri::ImageSpec) -> ImageSpec {
    ImageSpec {
        image: spec.image,
        user_specified: spec.user_specified_image,
        runtime_handler: spec.runtime_handler,
        annotations: spec.annotations.into_iter().collect(),
    }
}

fn device(device: cri::Device) -> Device {
    Device {
        container_path: device.container_path,
        host_path: device.host_path,
        permissions: device.permissions,
    }
}

fn mount(mount: cri::Mount) -> Result<Mount> {
    let propagation = match cri::MountPropagation::try_from(mount.propagation) {
        Ok(cri::MountPropagation::PropagationPrivate) => Propagation::Private,
        Ok(cri::MountPropagation::PropagationHostToContainer) => Propagation::HostToContainer,
        Ok(cri::MountPropagation::PropagationBidirectional) => Propagation::Bidirectional,
        Err(_) => {
            return Err(Error::invalid(format!(
                "config.mounts.propagation: {} is unknown",
                mount.propagation
            )));
        }
    };
    let spec = mount.image.filter(|spec| !spec.image.is_empty());
    Ok(Mount {
        container_path: mount.container_path,
        host_path: mount.host_path,
        readonly: mount.readonly,
        selinux_relabel: mount.selinux_relabel,
        propagation,
        uid_mappings: mappings(&mount.uid_mappings),
        gid_mappings: mappings(&mount.gid_mappings),
        recursive_read_only: mount.recursive_read_only,
        image: spec.map(image),
        image_sub_path: mount.image_sub_path,
        options: mount.mount_options,
    })
}

fn security(context: cri::LinuxContainerSecurityContext) -> Result<ContainerSecurity> {
    let capabilities = context.capabilities.unwrap_or_default();
    let groups_policy = match cri::SupplementalGroupsPolicy::try_from(context.supplemental_groups_policy) {
        Ok(cri::SupplementalGroupsPolicy::Merge) => GroupsPolicy::Merge,
        Ok(cri::SupplementalGroupsPolicy::Strict) => GroupsPolicy::Strict,
        Err(_) => {
            return Err(Error::invalid(
                "config.linux.security_context.supplemental_groups_policy: is unknown",
            ));
        }
    };
    Ok(ContainerSecurity {
        add_capabilities: capabilities.add_capabilities,
        drop_capabilities: capabilities.drop_capabilities,
        add_ambient_capabilities: capabilities.add_ambient_capabilities,
        privileged: context.privileged,
        namespaces: namespaces(context.namespace_options.unwrap_or_default())?,
        run_as_user: context.run_as_user.map(|id| id.value),
        run_as_group: context.run_as_group.map(|id| id.value),
        run_as_username: context.run_as_username,
        readonly_rootfs: context.readonly_rootfs,
        supplemental_groups: context.supplemental_groups,
        groups_policy,
        no_new_privs: context.no_new_privs,
        masked_paths: context.masked_paths,
        readonly_paths: context.readonly_paths,
        seccomp: context.seccomp.map(profile).transpose()?,
        apparmor: context.apparmor.map(profile).transpose()?,
        selinux: context.selinux_options.and_then(label),
    })
}

fn label(options: cri::SeLinuxOption) -> Option<String> {
    let parts = [options.user, options.role, options.r#type, options.level];
    parts.iter().any(|part| !part.is_empty()).then(|| parts.join(":"))
}

/// Which containers.
#[must_use]
pub fn filter(filter: Option<cri::ContainerFilter>) -> Filter {
    let filter = filter.unwrap_or_default();
    let state = filter.state.map(|state| match cri::ContainerState::try_from(state.state) {
        Ok(cri::ContainerState::ContainerCreated) => State::Created,
        Ok(cri::ContainerState::ContainerRunning) => State::Running,
        Ok(cri::ContainerState::ContainerExited) => State::Exited,
        Ok(cri::ContainerState::ContainerUnknown) | Err(_) => State::Unknown,
    });
    let labels = filter.label_selector.into_iter().collect();
    Filter { id: filter.id, state, sandbox: filter.pod_sandbox_id, labels }
}

/// Which containers' figures.
#[must_use]
pub fn stats_filter(filter: Option<cri::ContainerStatsFilter>) -> Filter {
    let filter = filter.unwrap_or_default();
    let labels = filter.label_selector.into_iter().collect();
    Filter { id: filter.id, state: None, sandbox: filter.pod_sandbox_id, labels }
}
