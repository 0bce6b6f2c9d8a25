//! What a pod sandbox is asked to be: the words of RunPodSandbox as plain values, without the wire.
//!
//! They are also what the store keeps, so fields may be added here but never change their meaning.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything RunPodSandbox says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SandboxConfig {
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// Which attempt at this pod this is.
    pub attempt: u32,
    /// Host name inside the pod; empty with the host's network.
    pub hostname: String,
    /// Directory of the containers' logs on the host; empty when logs are not wanted.
    pub log_directory: String,
    /// DNS settings; absent means the host's own resolv.conf.
    pub dns: Option<DnsConfig>,
    /// Host ports.
    pub port_mappings: Vec<PortMapping>,
    /// Labels, returned as given.
    pub labels: BTreeMap<String, String>,
    /// Annotations, returned as given.
    pub annotations: BTreeMap<String, String>,
    /// Parent of the pod's cgroups, in the form of the node's driver.
    pub cgroup_parent: String,
    /// Sysctls of the pod's own namespaces, dotted names.
    pub sysctls: BTreeMap<String, String>,
    /// Security settings of the sandbox.
    pub security: SandboxSecurity,
    /// Overhead of the runtime class.
    pub overhead: Option<Resources>,
    /// Sum of the containers' resources.
    pub resources: Option<Resources>,
}

/// resolv.conf in three lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DnsConfig {
    /// Name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Resolver options.
    pub options: Vec<String>,
}

/// One port of the host that leads into the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMapping {
    /// Transport.
    pub protocol: Protocol,
    /// Port inside the pod.
    pub container_port: u16,
    /// Port of the host, 0 for none.
    pub host_port: u16,
    /// Address of the host, empty for all.
    pub host_ip: String,
}

/// Transport of a port mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Security settings that hold for the whole sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SandboxSecurity {
    /// Which namespaces are the pod's own.
    pub namespaces: Namespaces,
    /// A privileged container may run here.
    pub privileged: bool,
    /// User of the sandbox's own processes; Berth has none, kept to be answered.
    pub run_as_user: Option<i64>,
    /// Group of the sandbox's own processes.
    pub run_as_group: Option<i64>,
    /// Supplemental groups of the sandbox's own processes.
    pub supplemental_groups: Vec<i64>,
    /// Seccomp profile of the sandbox's own processes.
    pub seccomp: Option<SecurityProfile>,
    /// AppArmor profile of the sandbox's own processes.
    pub apparmor: Option<SecurityProfile>,
}

/// The namespace options of a sandbox or container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Namespaces {
    /// Network.
    pub network: NamespaceMode,
    /// Process ids.
    pub pid: NamespaceMode,
    /// System V and POSIX IPC.
    pub ipc: NamespaceMode,
    /// The container whose PID namespace is joined, with [`NamespaceMode::Target`].
    pub target: String,
    /// User namespace, absent for the host's.
    pub user: Option<UserNamespace>,
}

/// Whose namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NamespaceMode {
    /// The pod's.
    #[default]
    Pod,
    /// The container's own.
    Container,
    /// The host's.
    Node,
    /// Another container's.
    Target,
}

/// A user namespace and its mappings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserNamespace {
    /// Pod or node.
    pub mode: NamespaceMode,
    /// User mappings.
    pub uids: Vec<IdMapping>,
    /// Group mappings.
    pub gids: Vec<IdMapping>,
}

/// A range of ids of the host and of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    /// First id on the host.
    pub host_id: u32,
    /// First id in the container.
    pub container_id: u32,
    /// How many.
    pub length: u32,
}

/// A seccomp or AppArmor profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityProfile {
    /// The runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
    /// A named profile, or a file on the node.
    Localhost(String),
}

/// Limits of a container or pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// CFS period in microseconds, 0 unset.
    pub cpu_period: i64,
    /// CFS quota in microseconds, 0 unset, negative none.
    pub cpu_quota: i64,
    /// Relative weight, 0 unset.
    pub cpu_shares: i64,
    /// Memory limit in bytes, 0 unset.
    pub memory_limit: i64,
    /// OOM score adjustment.
    pub oom_score_adj: i64,
    /// CPUs.
    pub cpuset_cpus: String,
    /// Memory nodes.
    pub cpuset_mems: String,
    /// Limits of huge pages.
    pub hugepages: Vec<HugepageLimit>,
    /// Files of cgroup v2.
    pub unified: BTreeMap<String, String>,
    /// Memory and swap together in bytes, 0 unset.
    pub memory_swap_limit: i64,
}

impl Resources {
    /// These limits with what a later request sets; what it leaves unset stays.
    #[must_use]
    pub fn merged(&self, later: &Self) -> Self {
        let number = |old: i64, new: i64| if new == 0 { old } else { new };
        let text = |old: &String, new: &String| if new.is_empty() { old.clone() } else { new.clone() };
        let mut unified = self.unified.clone();
        unified.extend(later.unified.clone());
        Self {
            cpu_period: number(self.cpu_period, later.cpu_period),
            cpu_quota: number(self.cpu_quota, later.cpu_quota),
            cpu_shares: number(self.cpu_shares, later.cpu_shares),
            memory_limit: number(self.memory_limit, later.memory_limit),
            oom_score_adj: number(self.oom_score_adj, later.oom_score_adj),
            cpuset_cpus: text(&self.cpuset_cpus, &later.cpuset_cpus),
            cpuset_mems: text(&self.cpuset_mems, &later.cpuset_mems),
            hugepages: if later.hugepages.is_empty() {
                self.hugepages.clone()
            } else {
                later.hugepages.clone()
            },
            unified,
            memory_swap_limit: number(self.memory_swap_limit, later.memory_swap_limit),
        }
    }
}

/// A limit of huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugepageLimit {
    /// `2MB`, `1GB`.
    pub page_size: String,
    /// Bytes.
    pub limit: u64,
}

/// What makes two RunPodSandbox requests speak of the same sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxKey {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod.
    pub uid: String,
    /// Attempt.
    pub attempt: u32,
    /// Runtime handler.
    pub handler: String,
}

impl SandboxConfig {
    /// The key of the operation that makes this sandbox.
    #[must_use]
    pub fn key(&self, handler: &str) -> SandboxKey {
        SandboxKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            attempt: self.attempt,
            handler: handler.to_owned(),
        }
    }

    /// True when the pod lives in the host's network.
    #[must_use]
    pub fn host_network(&self) -> bool {
        self.security.namespaces.network == NamespaceMode::Node
    }

    /// True when the pod lives in the host's IPC namespace.
    #[must_use]
    pub fn host_ipc(&self) -> bool {
        self.security.namespaces.ipc == NamespaceMode::Node
    }

    /// True when the pod's containers share one PID namespace.
    #[must_use]
    pub fn shared_pid(&self) -> bool {
        self.security.namespaces.pid == NamespaceMode::Pod
    }
}
