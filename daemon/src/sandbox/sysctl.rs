//! Sysctls of a pod: only those that belong to a namespace which is the pod's own.

use super::SandboxConfig;
use crate::pod::Error;
use std::collections::BTreeMap;

/// The namespace a sysctl belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Network,
    Ipc,
}

const FIELD: &str = "config.linux.sysctls";

/// Sysctls of the IPC namespace beyond those that begin with a known word.
const IPC: [&str; 2] = ["kernel.sem", "kernel.shm_rmid_forced"];

fn owner(name: &str) -> Option<Owner> {
    let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."];
    match name {
        name if name.starts_with("net.") => Some(Owner::Network),
        name if IPC.contains(&name) || ipc.iter().any(|begin| name.starts_with(begin)) => Some(Owner::Ipc),
        _ => None,
    }
}

/// Refuses what would be written into the host's namespaces, and names or values that are more than they seem.
///
/// # Errors
/// Names the sysctl and the reason.
pub(super) fn check(config: &SandboxConfig) -> Result<(), Error> {
    for (name, value) in &config.sysctls {
        let refuse = |problem: &str| Err(Error::invalid(FIELD, format!("{name:?} {problem}")));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':');
        if name.is_empty() || !name.chars().all(plain) || name.split(['.', '/']).any(str::is_empty) {
            return refuse("is no name of a sysctl");
        }
        if value.chars().any(char::is_control) && value.chars().any(|c| c != '\t' && c.is_control()) {
            return refuse("has a value with control characters");
        }
        match owner(&dotted(name)) {
            None => return refuse("belongs to no namespace of a pod, so it would change the host"),
            Some(Owner::Network) if config.host_network() => {
                return refuse("belongs to the network, which is the host's in this pod");
            }
            Some(Owner::Ipc) if config.host_ipc() => {
                return refuse("belongs to the IPC namespace, which is the host's in this pod");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The dotted form; with slashes between the words, dots are part of a word.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes().get(at) == Some(&b'/') => name
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// What is written into the pod's namespaces: the field's defaults, then what was asked for.
pub(super) fn wanted(config: &SandboxConfig) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if !config.host_network() {
        all.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned());
        all.insert("net.ipv4.ping_group_range".to_owned(), "0 2147483647".to_owned());
    }
    all.extend(config.sysctls.iter().map(|(name, value)| (dotted(name), value.clone())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::NamespaceMode;

    fn with(name: &str, value: &str) -> SandboxConfig {
        let sysctls = [(name.to_owned(), value.to_owned())].into();
        SandboxConfig { sysctls, ..SandboxConfig::default() }
    }

    #[test]
    fn namespaced_ones_pass_and_others_are_refused() {
        for name in [
            "net.core.somaxconn",
            "kernel.shm_rmid_forced",
            "kernel.msgmax",
            "kernel.sem",
            "fs.mqueue.msg_max",
        ] {
            assert_eq!(check(&with(name, "1")), Ok(()), "{name}");
        }
        for name in [
            "kernel.core_pattern",
            "vm.swappiness",
            "fs.file-max",
            "",
            "net..x",
            "net.a+kernel.b",
            "kernel.hostname",
        ] {
            assert!(check(&with(name, "1")).is_err(), "{name}");
        }
        assert!(check(&with("net.a", "1\n2")).is_err());
        assert_eq!(check(&with("net.ipv4.tcp_rmem", "1\t2\t3")), Ok(()));
    }

    #[test]
    fn those_of_the_hosts_namespaces_are_refused() {
        let mut config = with("net.core.somaxconn", "1");
        config.security.namespaces.network = NamespaceMode::Node;
        assert!(check(&config).is_err());
        assert!(!wanted(&config).contains_key("net.ipv4.ping_group_range"));
        let mut config = with("kernel.shmmax", "1");
        config.security.namespaces.ipc = NamespaceMode::Node;
        assert!(check(&config).is_err());
    }

    #[test]
    fn what_is_asked_for_wins_over_the_default() {
        let all = wanted(&with("net/ipv4/ip_unprivileged_port_start", "1024"));
        assert_eq!(all["net.ipv4.ip_unprivileged_port_start"], "1024");
        assert_eq!(all["net.ipv4.ping_group_range"], "0 2147483647");
        assert_eq!(dotted("net/ipv4/conf/eth0.1/rp_filter"), "net.ipv4.conf.eth0/1.rp_filter");
    }
}
