//! Whether a CreateContainer request makes sense, before anything is taken for it.

use super::{ContainerConfig, Mount, Propagation};
use crate::pod::Error;
use crate::sandbox::{NamespaceMode, SandboxConfig};
use berth_core::KubeletWord;

const NAME_MAX: usize = 253;
/// What may be asked of a mount beyond its own fields.
const MOUNT_OPTIONS: [&str; 3] = ["nodev", "noexec", "nosuid"];

/// Checks everything that needs no look at the system.
///
/// # Errors
/// Names the first field that is wrong.
pub(crate) fn check(config: &ContainerConfig) -> Result<(), Error> {
    let name = &config.name;
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(|c| c.is_control() || c == '/') {
        return Err(Error::invalid(
            "config.metadata.name",
            "must be 1 to 253 bytes without control characters or slashes",
        ));
    }
    if config.image.image.is_empty() {
        return Err(Error::invalid("config.image.image", "must not be empty"));
    }
    log_path(&config.log_path)?;
    config.mounts.iter().try_for_each(mount)?;
    for device in &config.devices {
        let bad =
            !device.host_path.starts_with('/') || device.permissions.chars().any(|c| !"rwm".contains(c));
        if bad {
            return Err(Error::invalid(
                "config.devices",
                format!("{:?}: path or permissions", device.host_path),
            ));
        }
    }
    if !config.cdi_devices.is_empty() {
        return Err(Error::Unsupported("a CDI device".to_owned()));
    }
    let namespaces = &config.security.namespaces;
    if namespaces.pid == NamespaceMode::Target && namespaces.target.is_empty() {
        let field = "config.linux.security_context.namespace_options.target_id";
        return Err(Error::invalid(field, "TARGET needs the id of a container of the same pod"));
    }
    Ok(())
}

/// Checks it against its sandbox.
///
/// # Errors
/// It wants more than its sandbox was announced to hold.
pub(crate) fn fits(config: &ContainerConfig, sandbox: &SandboxConfig) -> Result<(), Error> {
    if config.security.privileged && !sandbox.security.privileged {
        let problem = "the sandbox was not made for privileged containers (its own privileged is false)";
        return Err(Error::invalid("config.linux.security_context.privileged", problem));
    }
    Ok(())
}

fn log_path(path: &str) -> Result<(), Error> {
    let bad = path.starts_with('/') || path.split('/').any(|part| part == "..") || path.contains('\0');
    match bad {
        true => Err(Error::invalid("config.log_path", format!("{path:?} must be relative, without \"..\""))),
        false => Ok(()),
    }
}

fn mount(mount: &Mount) -> Result<(), Error> {
    let refuse = |problem: &str| {
        Err(Error::invalid("config.mounts", format!("mount at {:?}: {problem}", mount.container_path)))
    };
    if mount.container_path.is_empty() {
        return refuse("container_path is empty");
    }
    if mount.image.is_some() {
        let cause = format!("mount at {:?}: image volumes are not supported yet", mount.container_path);
        let word = Some(KubeletWord::ImageVolumeMountFailed);
        return Err(Error::Step {
            class: berth_core::ErrorClass::Unimplemented,
            word,
            step: "mount image volume".to_owned(),
            cause,
        });
    }
    if !mount.host_path.starts_with('/') {
        return refuse("host_path is not absolute");
    }
    if mount.recursive_read_only && (!mount.readonly || mount.propagation != Propagation::Private) {
        return refuse("recursive_read_only needs readonly and private propagation");
    }
    if !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty() {
        return refuse("id mappings are not supported");
    }
    match mount.options.iter().find(|option| !MOUNT_OPTIONS.contains(&option.as_str())) {
        Some(option) => refuse(&format!("option {option:?} is not one of nodev, noexec, nosuid")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> ContainerConfig {
        let mut config = ContainerConfig { name: "c".into(), ..ContainerConfig::default() };
        config.image.image = "busybox".into();
        config.mounts =
            vec![Mount { container_path: "/x".into(), host_path: "/tmp".into(), ..Mount::default() }];
        config
    }

    fn refused(change: impl FnOnce(&mut ContainerConfig)) -> String {
        let mut config = good();
        change(&mut config);
        check(&config).unwrap_err().to_string()
    }

    #[test]
    fn a_privileged_container_needs_a_sandbox_that_announced_it() {
        let (mut config, mut sandbox) = (good(), SandboxConfig::default());
        assert_eq!(fits(&config, &sandbox), Ok(()));
        config.security.privileged = true;
        let refused = fits(&config, &sandbox).unwrap_err().to_string();
        assert!(refused.starts_with("config.linux.security_context.privileged"), "{refused}");
        sandbox.security.privileged = true;
        assert_eq!(fits(&config, &sandbox), Ok(()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        assert_eq!(check(&good()), Ok(()));
        assert!(refused(|c| c.name.clear()).starts_with("config.metadata.name"));
        assert!(refused(|c| c.image.image.clear()).starts_with("config.image.image"));
        assert!(refused(|c| c.log_path = "../x".into()).starts_with("config.log_path"));
        assert!(refused(|c| c.log_path = "/x".into()).starts_with("config.log_path"));
        assert!(refused(|c| c.mounts[0].host_path = "tmp".into()).contains("/x"));
        assert!(refused(|c| c.mounts[0].options = vec!["dev".into()]).contains("nodev, noexec, nosuid"));
        assert!(refused(|c| c.mounts[0].recursive_read_only = true).contains("needs readonly"));
        assert!(refused(|c| c.mounts[0].image = Some(Default::default())).contains("image volumes"));
        assert!(refused(|c| c.security.namespaces.pid = NamespaceMode::Target).contains("target_id"));
    }
}
