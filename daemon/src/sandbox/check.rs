//! Whether a RunPodSandbox request makes sense, before anything is taken for it.

use super::sysctl;
use super::{NamespaceMode, SandboxConfig};
use crate::pod::Error;
use berth_cgroup::{CgroupPath, Driver};
use berth_core::SandboxId;

/// Handlers of this build.
const HANDLERS: [&str; 2] = ["", "berth"];
/// The kernel's limit of a host name.
const HOSTNAME_MAX: usize = 64;
/// Longest name, namespace or uid taken.
const NAME_MAX: usize = 253;

/// Checks names, handler, host name, directory, sysctls, namespaces and cgroup parent.
///
/// # Errors
/// Names the first field that is wrong.
pub(crate) fn check(config: &SandboxConfig, handler: &str, driver: Driver) -> Result<(), Error> {
    identity(config)?;
    if !HANDLERS.contains(&handler) {
        let problem = format!("handler {handler:?} is not configured; this node has \"\" and \"berth\"");
        return Err(Error::invalid("runtime_handler", problem));
    }
    hostname(&config.hostname)?;
    directory(&config.log_directory)?;
    namespaces(config)?;
    sysctl::check(config)?;
    let probe = "0".repeat(64);
    CgroupPath::under_parent(driver, &config.cgroup_parent, &probe)
        .map(drop)
        .map_err(|error| Error::invalid("config.linux.cgroup_parent", error.to_string()))
}

/// Checks the fields that every stored sandbox has.
///
/// # Errors
/// Names the field that is missing or wrong.
pub(crate) fn identity(config: &SandboxConfig) -> Result<(), Error> {
    let fields = [("name", &config.name), ("uid", &config.uid), ("namespace", &config.namespace)];
    for (field, value) in fields {
        let problem = match value {
            text if text.is_empty() => "must not be empty",
            text if text.len() > NAME_MAX => "is longer than 253 bytes",
            text if text.chars().any(|c| c.is_control() || c == '/') => {
                "holds a control character or a slash"
            }
            _ => continue,
        };
        return Err(Error::invalid(format!("config.metadata.{field}"), problem));
    }
    Ok(())
}

fn hostname(name: &str) -> Result<(), Error> {
    if name.len() > HOSTNAME_MAX {
        return Err(Error::invalid("config.hostname", format!("is longer than {HOSTNAME_MAX} bytes")));
    }
    match name.chars().all(|c| c.is_ascii_graphic() && c != '/') {
        true => Ok(()),
        false => {
            Err(Error::invalid("config.hostname", format!("{name:?} holds characters no host name has")))
        }
    }
}

fn directory(path: &str) -> Result<(), Error> {
    let bad = !path.is_empty() && (!path.starts_with('/') || path.split('/').any(|part| part == ".."));
    match bad || path.contains('\0') {
        true => {
            Err(Error::invalid("config.log_directory", format!("{path:?} must be absolute, without \"..\"")))
        }
        false => Ok(()),
    }
}

fn namespaces(config: &SandboxConfig) -> Result<(), Error> {
    let options = &config.security.namespaces;
    let field = |name: &str| format!("config.linux.security_context.namespace_options.{name}");
    for (name, mode) in [("network", options.network), ("ipc", options.ipc)] {
        if matches!(mode, NamespaceMode::Container | NamespaceMode::Target) {
            return Err(Error::invalid(field(name), "a pod's containers share it: POD or NODE"));
        }
    }
    if options.pid == NamespaceMode::Target {
        return Err(Error::invalid(field("pid"), "TARGET is for containers: POD, CONTAINER or NODE"));
    }
    match &options.user {
        Some(user) if user.mode == NamespaceMode::Pod => {
            Err(Error::Unsupported("a user namespace of the pod's own (hostUsers: false)".to_owned()))
        }
        _ => Ok(()),
    }
}

/// The cgroup of the sandbox itself.
///
/// # Errors
/// The parent has the other driver's form.
pub(crate) fn cgroup_of(config: &SandboxConfig, driver: Driver, id: SandboxId) -> Result<CgroupPath, Error> {
    CgroupPath::under_parent(driver, &config.cgroup_parent, id.as_str())
        .map_err(|error| Error::invalid("config.linux.cgroup_parent", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::UserNamespace;

    fn good() -> SandboxConfig {
        let (name, uid, namespace) = ("web".to_owned(), "u-1".to_owned(), "default".to_owned());
        SandboxConfig { name, uid, namespace, ..SandboxConfig::default() }
    }

    fn refused(change: impl FnOnce(&mut SandboxConfig)) -> String {
        let mut config = good();
        change(&mut config);
        check(&config, "", Driver::Cgroupfs).unwrap_err().to_string()
    }

    #[test]
    fn each_wrong_field_is_named() {
        assert_eq!(check(&good(), "berth", Driver::Cgroupfs), Ok(()));
        assert!(refused(|c| c.name.clear()).starts_with("config.metadata.name:"));
        assert!(refused(|c| c.uid.clear()).starts_with("config.metadata.uid:"));
        assert!(refused(|c| c.namespace = "a/b".into()).starts_with("config.metadata.namespace:"));
        assert!(refused(|c| c.hostname = "a b".into()).starts_with("config.hostname:"));
        assert!(refused(|c| c.hostname = "a".repeat(65)).starts_with("config.hostname:"));
        assert!(refused(|c| c.log_directory = "/var/../etc".into()).starts_with("config.log_directory:"));
        assert!(refused(|c| c.security.namespaces.network = NamespaceMode::Container).contains(".network:"));
        assert!(refused(|c| c.security.namespaces.pid = NamespaceMode::Target).contains(".pid:"));
        let own = UserNamespace::default();
        assert!(refused(|c| c.security.namespaces.user = Some(own)).contains("not supported"));
    }

    #[test]
    fn a_handler_that_is_not_there_is_refused() {
        let error = check(&good(), "kata", Driver::Cgroupfs).unwrap_err();
        assert!(error.to_string().contains("\"kata\""));
    }

    #[test]
    fn a_parent_of_the_other_driver_is_refused_with_the_remedy() {
        let slice = refused(|c| c.cgroup_parent = "/kubepods.slice/kubepods-pod1.slice".into());
        assert!(
            slice.starts_with("config.linux.cgroup_parent:") && slice.contains("cgroupDriver"),
            "{slice}"
        );
        let triple = refused(|c| c.cgroup_parent = "kube.slice:cri:x".into());
        assert!(triple.contains("cgroupDriver"), "{triple}");
        let config = SandboxConfig { cgroup_parent: "/kubepods/pod1".into(), ..good() };
        let path = check(&config, "", Driver::Systemd).unwrap_err().to_string();
        assert!(path.contains("cgroupDriver"), "{path}");
    }
}
