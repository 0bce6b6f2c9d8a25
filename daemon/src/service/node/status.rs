//! Whether the node can run pods, and what it can do.

use crate::app::App;
use crate::blocking::Room;
use berth_cgroup::Driver;
use berth_core::Result;
use std::path::Path;

/// One condition of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// One word why not.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// A runtime handler, as RuntimeClass names it, and what it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handler {
    /// Its name; empty is the default.
    pub name: &'static str,
    /// Whether read-only mounts can be made so with everything below them.
    pub recursive_read_only_mounts: bool,
    /// Whether pods can have a user namespace.
    pub user_namespaces: bool,
}

/// The node's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Conditions; the kubelet reads RuntimeReady and NetworkReady.
    pub conditions: Vec<Condition>,
    /// Handlers, sorted by name.
    pub handlers: Vec<Handler>,
    /// Whether SupplementalGroupsPolicy is honoured.
    pub supplemental_groups_policy: bool,
}

/// Where systemd is spoken to.
const SYSTEMD: [&str; 2] = ["/run/systemd/private", "/run/dbus/system_bus_socket"];

/// Handler names that [`status`] reports; RunPodSandbox accepts the same.
pub const HANDLERS: [&str; 2] = ["", "berth"];

/// Looks. Answers from what is known: plugins and disks are not waited for.
///
/// # Errors
/// The daemon ends.
pub async fn status(app: &App) -> Result<NodeStatus> {
    let network = app.network.clone();
    // It reads the configuration's directory, and gives the very first answer of a plugin a moment.
    let network = app.blocking.run_in(Room::Look, "look at the network", move || network.status()).await?;
    let network = Condition {
        kind: "NetworkReady",
        holds: network.ready,
        reason: network.reason,
        message: network.message,
    };
    let conditions = vec![runtime(app), network, mounts(app), store(app)];
    Ok(NodeStatus { conditions, handlers: handlers(&app.host.kernel), supplemental_groups_policy: true })
}

fn condition(kind: &'static str, problem: Option<(&str, &str)>) -> Condition {
    let (reason, message) = problem.unwrap_or_default();
    Condition { kind, holds: problem.is_none(), reason: reason.to_owned(), message: message.to_owned() }
}

/// Containers cannot be made without whoever makes their cgroups.
fn runtime(app: &App) -> Condition {
    let missing = app.driver == Driver::Systemd && !SYSTEMD.iter().any(|path| Path::new(path).exists());
    let message = "cgroup.driver is systemd, but systemd does not answer here: neither /run/systemd/private nor the \
                   system bus is there; set [cgroup] driver = \"cgroupfs\"";
    condition("RuntimeReady", missing.then_some(("NoSystemd", message)))
}

fn mounts(app: &App) -> Condition {
    let problem =
        ("PrivateMountNamespace", "berthd does not share PID 1's mounts: volumes may not reach containers");
    condition("SharesHostMounts", (!app.host.shares_host_mounts).then_some(problem))
}

fn store(app: &App) -> Condition {
    let problem = ("NoSpace", "the store cannot be written: free space on its disk");
    condition("StoreWritable", app.store.is_read_only().then_some(problem))
}

fn handlers(kernel: &str) -> Vec<Handler> {
    // mount_setattr(AT_RECURSIVE) came with 5.12.
    let recursive_read_only_mounts = at_least(kernel, (5, 12));
    HANDLERS.iter().map(|name| Handler { name, recursive_read_only_mounts, user_namespaces: false }).collect()
}

fn at_least(kernel: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_sorted_and_know_the_kernel() {
        assert!(HANDLERS.is_sorted());
        assert!(handlers("6.18.5")[0].recursive_read_only_mounts);
        assert!(!handlers("5.10.0-28-amd64")[1].recursive_read_only_mounts);
        assert!(at_least("5.12", (5, 12)) && !at_least("garbage", (5, 12)));
    }
}
