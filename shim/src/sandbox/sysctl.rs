//! Kernel parameters of the pod's namespaces. Only those that a namespace keeps for itself: any other would change
//! the node.

use std::fs::OpenOptions;
use std::io::Write;

use berth_proto::shim::StartSandboxRequest;

use crate::error::{CallError, Step};

/// Parameters of the ipc namespace.
const IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// Refuses what would reach beyond the pod, before anything is made.
pub(super) fn check(request: &StartSandboxRequest) -> Result<(), CallError> {
    for name in request.sysctls.keys() {
        if let Some(reason) = refusal(name, request.new_ipc, !request.netns_path.is_empty()) {
            return Err(CallError::request("sysctls", format!("{name}: {reason}")));
        }
    }
    Ok(())
}

fn refusal(name: &str, own_ipc: bool, own_network: bool) -> Option<&'static str> {
    let dotted = name.replace('/', ".");
    let plain = dotted.split('.').all(|word| !word.is_empty());
    let ipc = IPC.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
    let network = dotted.starts_with("net.");
    match (plain, ipc, network) {
        (false, ..) => Some("is no name of a kernel parameter"),
        (_, true, _) if !own_ipc => Some("would change the node: the pod uses the host's ipc namespace"),
        (_, _, true) if !own_network => Some("would change the node: the pod uses the host's network"),
        (_, true, _) | (_, _, true) => None,
        _ => Some("would change the node: no namespace of a pod keeps it"),
    }
}

/// In the order in which they are written: one parameter may depend on another only by luck, but always the same.
pub(super) fn sorted(request: &StartSandboxRequest) -> Vec<(&String, &String)> {
    let mut all: Vec<_> = request.sysctls.iter().collect();
    all.sort();
    all
}

/// The first separator of a name says which kind separates; the other kind is part of an interface's name then.
fn path_of(name: &str) -> String {
    if name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/')) {
        return name.to_owned();
    }
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

/// Writes one, in the calling thread's namespaces.
pub(super) fn write(name: &str, value: &str) -> Result<(), CallError> {
    let path = path_of(name);
    let path = format!("/proc/sys/{path}");
    let mut file =
        OpenOptions::new().write(true).open(&path).step(|| format!("sysctl {name}: open {path}"))?;
    file.write_all(value.as_bytes()).step(|| format!("sysctl {name} = {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same() {
        assert_eq!(path_of("net.ipv4.ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path_of("net/ipv4/ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path_of("net.ipv4.conf.eth0/1.rp_filter"), "net/ipv4/conf/eth0.1/rp_filter");
        assert_eq!(path_of("net/ipv4/conf/eth0.1/rp_filter"), "net/ipv4/conf/eth0.1/rp_filter");
    }

    #[test]
    fn the_node_is_out_of_reach() {
        for name in ["kernel.shmmax", "kernel.shm_rmid_forced", "fs.mqueue.msg_max"] {
            assert_eq!(refusal(name, true, false), None, "{name}");
            assert!(refusal(name, false, true).is_some(), "{name}");
        }
        for name in ["net.ipv4.ip_unprivileged_port_start", "net.ipv4.conf.eth0/1.rp_filter"] {
            assert_eq!(refusal(name, false, true), None, "{name}");
            assert!(refusal(name, true, false).is_some(), "{name}");
        }
        for name in
            ["vm.swappiness", "kernel.panic", "net", "", "net..x", "net.../../kernel.panic", "fs.file-max"]
        {
            assert!(refusal(name, true, true).is_some(), "{name}");
        }
    }
}
