//! Sandboxes: wire words to plain values and back.

use super::container;
use crate::sandbox::{
    DnsConfig, HugepageLimit, IdMapping, NamespaceMode, Namespaces, PortMapping, Protocol, Resources,
    SandboxConfig, SandboxRecord, SandboxSecurity, SandboxState, SecurityProfile, UserNamespace,
};
use crate::service::sandbox::{Filter, SandboxStatus};
use crate::stats::{Interface, PodStats};
use berth_core::{Error, Result};
use berth_proto::cri;
use std::collections::HashMap;

/// What a sandbox is asked to be.
///
/// # Errors
/// Names the field that is missing or out of range.
pub fn config(config: cri::PodSandboxConfig) -> Result<SandboxConfig> {
    let metadata = config.metadata.ok_or_else(|| Error::invalid("config.metadata: is missing"))?;
    let linux = config.linux.unwrap_or_default();
    let security = linux.security_context.unwrap_or_default();
    Ok(SandboxConfig {
        name: metadata.name,
        uid: metadata.uid,
        namespace: metadata.namespace,
        attempt: metadata.attempt,
        hostname: config.hostname,
        log_directory: config.log_directory,
        dns: config.dns_config.map(|dns| DnsConfig {
            servers: dns.servers,
            searches: dns.searches,
            options: dns.options,
        }),
        port_mappings: config.port_mappings.iter().map(port).collect::<Result<_>>()?,
        labels: config.labels.into_iter().collect(),
        annotations: config.annotations.into_iter().collect(),
        cgroup_parent: linux.cgroup_parent,
        sysctls: linux.sysctls.into_iter().collect(),
        security: security_of(security)?,
        overhead: linux.overhead.as_ref().map(resources),
        resources: linux.resources.as_ref().map(resources),
    })
}

fn security_of(security: cri::LinuxSandboxSecurityContext) -> Result<SandboxSecurity> {
    Ok(SandboxSecurity {
        namespaces: namespaces(security.namespace_options.unwrap_or_default())?,
        privileged: security.privileged,
        run_as_user: security.run_as_user.map(|id| id.value),
        run_as_group: security.run_as_group.map(|id| id.value),
        supplemental_groups: security.supplemental_groups,
        seccomp: security.seccomp.map(profile).transpose()?,
        apparmor: security.apparmor.map(profile).transpose()?,
    })
}

fn port(port: &cri::PortMapping) -> Result<PortMapping> {
    let number = |value: i32, field: &str| {
        u16::try_from(value).map_err(|_| {
            Error::invalid(format!("config.port_mappings.{field}: {value} is no port (0 to 65535)"))
        })
    };
    let protocol = match cri::Protocol::try_from(port.protocol) {
        Ok(cri::Protocol::Tcp) => Protocol::Tcp,
        Ok(cri::Protocol::Udp) => Protocol::Udp,
        Ok(cri::Protocol::Sctp) => Protocol::Sctp,
        Err(_) => {
            return Err(Error::invalid(format!(
                "config.port_mappings.protocol: {} is unknown",
                port.protocol
            )));
        }
    };
    let (container_port, host_port) =
        (number(port.container_port, "container_port")?, number(port.host_port, "host_port")?);
    if !port.host_ip.is_empty() && port.host_ip.parse::<std::net::IpAddr>().is_err() {
        return Err(Error::invalid(format!(
            "config.port_mappings.host_ip: {:?} is no address",
            port.host_ip
        )));
    }
    Ok(PortMapping { protocol, container_port, host_port, host_ip: port.host_ip.clone() })
}

/// Namespace options of a sandbox or container.
pub(super) fn namespaces(options: cri::NamespaceOption) -> Result<Namespaces> {
    Ok(Namespaces {
        network: mode(options.network)?,
        pid: mode(options.pid)?,
        ipc: mode(options.ipc)?,
        target: options.target_id,
        user: options.userns_options.map(user).transpose()?,
    })
}

fn user(user: cri::UserNamespace) -> Result<UserNamespace> {
    Ok(UserNamespace { mode: mode(user.mode)?, uids: mappings(&user.uids), gids: mappings(&user.gids) })
}

/// Id mappings.
pub(super) fn mappings(all: &[cri::IdMapping]) -> Vec<IdMapping> {
    let mapping = |map: &cri::IdMapping| IdMapping {
        host_id: map.host_id,
        container_id: map.container_id,
        length: map.length,
    };
    all.iter().map(mapping).collect()
}

fn mode(number: i32) -> Result<NamespaceMode> {
    match cri::NamespaceMode::try_from(number) {
        Ok(cri::NamespaceMode::Pod) => Ok(NamespaceMode::Pod),
        Ok(cri::NamespaceMode::Container) => Ok(NamespaceMode::Container),
        Ok(cri::NamespaceMode::Node) => Ok(NamespaceMode::Node),
        Ok(cri::NamespaceMode::Target) => Ok(NamespaceMode::Target),
        Err(_) => Err(Error::invalid(format!("namespace_options: mode {number} is unknown"))),
    }
}

/// A security profile.
pub(super) fn profile(profile: cri::SecurityProfile) -> Result<SecurityProfile> {
    use cri::security_profile::ProfileType;
    match ProfileType::try_from(profile.profile_type) {
        Ok(ProfileType::RuntimeDefault) => Ok(SecurityProfile::RuntimeDefault),
        Ok(ProfileType::Unconfined) => Ok(SecurityProfile::Unconfined),
        Ok(ProfileType::Localhost) => Ok(SecurityProfile::Localhost(profile.localhost_ref)),
        Err(_) => Err(Error::invalid(format!("security profile type {} is unknown", profile.profile_type))),
    }
}

/// Limits.
#[must_use]
pub fn resources(limits: &cri::LinuxContainerResources) -> Resources {
    let page =
        |page: &cri::HugepageLimit| HugepageLimit { page_size: page.page_size.clone(), limit: page.limit };
    Resources {
        cpu_period: limits.cpu_period,
        cpu_quota: limits.cpu_quota,
        cpu_shares: limits.cpu_shares,
        memory_limit: limits.memory_limit_in_bytes,
        oom_score_adj: limits.oom_score_adj,
        cpuset_cpus: limits.cpuset_cpus.clone(),
        cpuset_mems: limits.cpuset_mems.clone(),
        hugepages: limits.hugepage_limits.iter().map(page).collect(),
        unified: limits.unified.clone().into_iter().collect(),
        memory_swap_limit: limits.memory_swap_limit_in_bytes,
    }
}

/// Which sandboxes.
#[must_use]
pub fn filter(filter: Option<cri::PodSandboxFilter>) -> Filter {
    let filter = filter.unwrap_or_default();
    let ready = filter.state.map(|state| state.state == cri::PodSandboxState::SandboxReady as i32);
    Filter { id: filter.id, ready, labels: filter.label_selector.into_iter().collect() }
}

/// Which sandboxes' figures.
#[must_use]
pub fn stats_filter(filter: Option<cri::PodSandboxStatsFilter>) -> Filter {
    let filter = filter.unwrap_or_default();
    Filter { id: filter.id, ready: None, labels: filter.label_selector.into_iter().collect() }
}

fn metadata(config: &SandboxConfig) -> cri::PodSandboxMetadata {
    cri::PodSandboxMetadata {
        name: config.name.clone(),
        uid: config.uid.clone(),
        namespace: config.namespace.clone(),
        attempt: config.attempt,
    }
}

fn state(record: &SandboxRecord) -> i32 {
    match record.state {
        SandboxState::Ready(_) => cri::PodSandboxState::SandboxReady as i32,
        _ => cri::PodSandboxState::SandboxNotready as i32,
    }
}

fn words(map: &std::collections::BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A sandbox in a list.
#[must_use]
pub fn item(record: &SandboxRecord) -> cri::PodSandbox {
    cri::PodSandbox {
        id: record.id.to_string(),
        metadata: Some(metadata(&record.config)),
        state: state(record),
        created_at: record.created_at.nanos(),
        labels: words(&record.config.labels),
        annotations: words(&record.config.annotations),
        runtime_handler: record.handler.clone(),
    }
}

/// A sandbox and its containers.
#[must_use]
pub fn status(found: &SandboxStatus, verbose: bool) -> cri::PodSandboxStatusResponse {
    let record = &found.sandbox;
    let status = cri::PodSandboxStatus {
        id: record.id.to_string(),
        metadata: Some(metadata(&record.config)),
        state: state(record),
        created_at: record.created_at.nanos(),
        network: Some(network(record)),
        linux: Some(cri::LinuxPodSandboxStatus {
            namespaces: Some(cri::Namespace { options: Some(options(&record.config.security.namespaces)) }),
        }),
        labels: words(&record.config.labels),
        annotations: words(&record.config.annotations),
        runtime_handler: record.handler.clone(),
    };
    cri::PodSandboxStatusResponse {
        status: Some(status),
        info: if verbose { info(record) } else { HashMap::new() },
        containers_statuses: found.containers.iter().map(|record| container::status(record)).collect(),
        timestamp: found.at.nanos(),
    }
}

fn network(record: &SandboxRecord) -> cri::PodSandboxNetworkStatus {
    let mut ips = record.ips().into_iter().map(|ip| ip.to_string());
    let ip = ips.next().unwrap_or_default();
    cri::PodSandboxNetworkStatus { ip, additional_ips: ips.map(|ip| cri::PodIp { ip }).collect() }
}

fn options(namespaces: &Namespaces) -> cri::NamespaceOption {
    let number = |mode: NamespaceMode| match mode {
        NamespaceMode::Pod => cri::NamespaceMode::Pod as i32,
        NamespaceMode::Container => cri::NamespaceMode::Container as i32,
        NamespaceMode::Node => cri::NamespaceMode::Node as i32,
        NamespaceMode::Target => cri::NamespaceMode::Target as i32,
    };
    cri::NamespaceOption {
        network: number(namespaces.network),
        pid: number(namespaces.pid),
        ipc: number(namespaces.ipc),
        target_id: namespaces.target.clone(),
        userns_options: None,
    }
}

fn info(record: &SandboxRecord) -> HashMap<String, String> {
    let live = record.live();
    let cause = match &record.state {
        SandboxState::NotReady { cause, .. } => cause.clone(),
        _ => None,
    };
    let text = serde_json::json!({
        "pid": live.map(|live| live.shim_pid),
        "runtimeHandler": record.handler,
        "state": record.state_word(),
        "cause": cause,
        "cgroup": record.cgroup,
        "namespaces": live.map(|live| &live.namespaces),
        "network": record.network,
        "config": record.config,
    });
    HashMap::from([("info".to_owned(), text.to_string())])
}

/// The figures of a sandbox.
#[must_use]
pub fn stats(found: &PodStats) -> cri::PodSandboxStats {
    let usage = found.usage.as_ref();
    let at = usage.map_or(found.at, |usage| usage.at).nanos();
    let mut interfaces = found.interfaces.iter().map(interface);
    let network = (!found.interfaces.is_empty()).then(|| cri::NetworkUsage {
        timestamp: found.at.nanos(),
        default_interface: interfaces.next(),
        interfaces: interfaces.collect(),
    });
    let tasks = usage.and_then(|usage| usage.cgroup.pids.current);
    cri::PodSandboxStats {
        attributes: Some(cri::PodSandboxAttributes {
            id: found.sandbox.id.to_string(),
            metadata: Some(metadata(&found.sandbox.config)),
            labels: words(&found.sandbox.config.labels),
            annotations: words(&found.sandbox.config.annotations),
        }),
        linux: Some(cri::LinuxPodSandboxStats {
            cpu: usage.map(container::cpu),
            memory: usage.map(container::memory),
            network,
            process: tasks.map(|value| cri::ProcessUsage {
                timestamp: at,
                process_count: Some(cri::UInt64Value { value }),
            }),
            containers: found.containers.iter().map(container::stats).collect(),
            io: usage.and_then(container::io),
        }),
        windows: None,
    }
}

fn interface(found: &Interface) -> cri::NetworkInterfaceUsage {
    let number = |value: u64| Some(cri::UInt64Value { value });
    cri::NetworkInterfaceUsage {
        name: found.name.clone(),
        rx_bytes: number(found.rx_bytes),
        rx_errors: number(found.rx_errors),
        tx_bytes: number(found.tx_bytes),
        tx_errors: number(found.tx_errors),
    }
}
