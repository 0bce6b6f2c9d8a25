//! Namespaces: the pod's by path, the container's own by name, the host's by silence.

use super::Input;
use crate::pod::Error;
use crate::sandbox::NamespaceMode;
use berth_core::oci::{LinuxNamespace, LinuxNamespaceType};

pub(super) fn namespaces(input: &Input<'_>) -> Result<Vec<LinuxNamespace>, Error> {
    let Some(live) = input.sandbox.live() else {
        return Err(Error::internal("build the spec", "the sandbox has no namespaces"));
    };
    let paths = &live.namespaces;
    let mut all = vec![own(LinuxNamespaceType::Mount)];
    all.extend(joined(LinuxNamespaceType::Network, &paths.net));
    all.extend(joined(LinuxNamespaceType::Ipc, &paths.ipc));
    all.extend(joined(LinuxNamespaceType::Uts, &paths.uts));
    all.extend(pid(input, &paths.pid)?);
    if input.facts.unified && !input.config.security.privileged {
        all.push(own(LinuxNamespaceType::Cgroup));
    }
    Ok(all)
}

fn pid(input: &Input<'_>, shared: &str) -> Result<Option<LinuxNamespace>, Error> {
    let kind = LinuxNamespaceType::Pid;
    let of_pod = input.sandbox.config.security.namespaces.pid;
    match (input.config.security.namespaces.pid, of_pod) {
        (NamespaceMode::Node, _) | (NamespaceMode::Pod, NamespaceMode::Node) => Ok(None),
        (NamespaceMode::Container, _) => Ok(Some(own(kind))),
        (NamespaceMode::Pod, _) => Ok(joined(kind, shared).or_else(|| Some(own(kind)))),
        (NamespaceMode::Target, _) => match &input.facts.target_pid {
            Some(target) => Ok(joined(kind, target.path())),
            None => Err(Error::internal("build the spec", "the target container was not looked up")),
        },
    }
}

fn own(kind: LinuxNamespaceType) -> LinuxNamespace {
    LinuxNamespace { typ: kind, path: None }
}

fn joined(kind: LinuxNamespaceType, path: &str) -> Option<LinuxNamespace> {
    (!path.is_empty()).then(|| LinuxNamespace { typ: kind, path: Some(path.into()) })
}
