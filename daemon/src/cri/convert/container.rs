//! Containers: wire words to plain values and back.

mod from_wire;
mod signal;

pub use from_wire::{config, filter, stats_filter};

use crate::container::{ContainerRecord, ContainerState, Mount, Propagation};
use crate::sandbox::{IdMapping, Resources};
use crate::service::container::State;
use crate::stats::{ContainerStats, Usage};
use berth_core::Timestamp;
use berth_proto::cri;
use std::collections::{BTreeMap, HashMap};

fn words(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn metadata(record: &ContainerRecord) -> cri::ContainerMetadata {
    cri::ContainerMetadata { name: record.config.name.clone(), attempt: record.config.attempt }
}

fn state(record: &ContainerRecord) -> i32 {
    let state = match State::of(record) {
        State::Created => cri::ContainerState::ContainerCreated,
        State::Running => cri::ContainerState::ContainerRunning,
        State::Exited => cri::ContainerState::ContainerExited,
        State::Unknown => cri::ContainerState::ContainerUnknown,
    };
    state as i32
}

fn image(spec: &crate::container::ImageSpec) -> cri::ImageSpec {
    cri::ImageSpec {
        image: spec.image.clone(),
        user_specified_image: spec.user_specified.clone(),
        runtime_handler: spec.runtime_handler.clone(),
        annotations: words(&spec.annotations),
        ..cri::ImageSpec::default()
    }
}

/// A container in a list.
#[must_use]
pub fn item(record: &ContainerRecord) -> cri::Container {
    cri::Container {
        id: record.id.to_string(),
        pod_sandbox_id: record.sandbox.to_string(),
        metadata: Some(metadata(record)),
        image: Some(image(&record.config.image)),
        image_ref: record.image_ref.clone(),
        state: state(record),
        created_at: record.created_at.nanos(),
        labels: words(&record.config.labels),
        annotations: words(&record.config.annotations),
        image_id: record.image_id.clone(),
    }
}

/// Times and words of a state: started, finished, code, reason, message.
fn ending(state: &ContainerState) -> (Timestamp, Timestamp, i32, String, String) {
    let none = Timestamp::NEVER;
    match state {
        ContainerState::Creating | ContainerState::Created { .. } => {
            (none, none, 0, String::new(), String::new())
        }
        ContainerState::Running { started_at, .. } => (*started_at, none, 0, String::new(), String::new()),
        ContainerState::Exited(exited) => {
            let reason = exited.reason.as_str().to_owned();
            (exited.started_at, exited.finished_at, exited.code, reason, exited.message.clone())
        }
        ContainerState::Unknown { cause } => (none, none, 0, "Unknown".to_owned(), cause.clone()),
    }
}

/// A container's status.
#[must_use]
pub fn status(record: &ContainerRecord) -> cri::ContainerStatus {
    let (started_at, finished_at, exit_code, reason, message) = ending(&record.state);
    let user = record.user.as_ref().map(|user| cri::ContainerUser {
        linux: Some(cri::LinuxContainerUser {
            uid: user.uid,
            gid: user.gid,
            supplemental_groups: user.groups.clone(),
        }),
    });
    cri::ContainerStatus {
        id: record.id.to_string(),
        metadata: Some(metadata(record)),
        state: state(record),
        created_at: record.created_at.nanos(),
        started_at: started_at.nanos(),
        finished_at: finished_at.nanos(),
        exit_code,
        image: Some(image(&record.config.image)),
        image_ref: record.image_ref.clone(),
        reason,
        message,
        labels: words(&record.config.labels),
        annotations: words(&record.config.annotations),
        mounts: record.config.mounts.iter().map(mount).collect(),
        log_path: record.log.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        resources: Some(cri::ContainerResources {
            linux: Some(resources(&record.config.resources)),
            windows: None,
        }),
        image_id: record.image_id.clone(),
        user,
        stop_signal: signal::to_wire(record.stop_signal) as i32,
    }
}

/// What a verbose status says besides.
#[must_use]
pub fn info(record: &ContainerRecord) -> HashMap<String, String> {
    let pid = match record.state {
        ContainerState::Created { pid } | ContainerState::Running { pid, .. } => pid,
        _ => 0,
    };
    let text = serde_json::json!({
        "sandboxID": record.sandbox,
        "pid": pid,
        "state": record.state_word(),
        "cgroup": record.cgroup,
        "config": record.config,
    });
    HashMap::from([("info".to_owned(), text.to_string())])
}

fn mount(mount: &Mount) -> cri::Mount {
    let propagation = match mount.propagation {
        Propagation::Private => cri::MountPropagation::PropagationPrivate,
        Propagation::HostToContainer => cri::MountPropagation::PropagationHostToContainer,
        Propagation::Bidirectional => cri::MountPropagation::PropagationBidirectional,
    };
    let mapping = |map: &IdMapping| cri::IdMapping {
        host_id: map.host_id,
        container_id: map.container_id,
        length: map.length,
    };
    cri::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        readonly: mount.readonly,
        selinux_relabel: mount.selinux_relabel,
        propagation: propagation as i32,
        uid_mappings: mount.uid_mappings.iter().map(mapping).collect(),
        gid_mappings: mount.gid_mappings.iter().map(mapping).collect(),
        recursive_read_only: mount.recursive_read_only,
        image: mount.image.as_ref().map(image),
        image_sub_path: mount.image_sub_path.clone(),
        mount_options: mount.options.clone(),
    }
}

fn resources(limits: &Resources) -> cri::LinuxContainerResources {
    let page = |page: &crate::sandbox::HugepageLimit| cri::HugepageLimit {
        page_size: page.page_size.clone(),
        limit: page.limit,
    };
    cri::LinuxContainerResources {
        cpu_period: limits.cpu_period,
        cpu_quota: limits.cpu_quota,
        cpu_shares: limits.cpu_shares,
        memory_limit_in_bytes: limits.memory_limit,
        oom_score_adj: limits.oom_score_adj,
        cpuset_cpus: limits.cpuset_cpus.clone(),
        cpuset_mems: limits.cpuset_mems.clone(),
        hugepage_limits: limits.hugepages.iter().map(page).collect(),
        unified: words(&limits.unified),
        memory_swap_limit_in_bytes: limits.memory_swap_limit,
    }
}

/// The figures of a container.
#[must_use]
pub fn stats(found: &ContainerStats) -> cri::ContainerStats {
    let record = &found.record;
    let usage = found.usage.as_ref();
    cri::ContainerStats {
        attributes: Some(cri::ContainerAttributes {
            id: record.id.to_string(),
            metadata: Some(metadata(record)),
            labels: words(&record.config.labels),
            annotations: words(&record.config.annotations),
        }),
        cpu: usage.map(cpu),
        memory: usage.map(memory),
        writable_layer: found.writable.as_ref().map(|layer| cri::FilesystemUsage {
            timestamp: layer.at.nanos(),
            fs_id: Some(cri::FilesystemIdentifier {
                mountpoint: layer.directory.to_string_lossy().into_owned(),
            }),
            used_bytes: number(Some(layer.bytes)),
            inodes_used: number(Some(layer.inodes)),
        }),
        swap: usage.and_then(swap),
        io: usage.and_then(io),
    }
}

fn number(value: Option<u64>) -> Option<cri::UInt64Value> {
    value.map(|value| cri::UInt64Value { value })
}

fn pressure(found: berth_cgroup::stats::Pressure) -> cri::PsiStats {
    let data = |stall: berth_cgroup::stats::Stall| cri::PsiData {
        // CRI counts in nanoseconds.
        total: stall.total_us.saturating_mul(1000),
        avg10: stall.avg10,
        avg60: stall.avg60,
        avg300: stall.avg300,
    };
    cri::PsiStats { full: Some(data(found.full)), some: Some(data(found.some)) }
}

/// Processor time.
pub(super) fn cpu(usage: &Usage) -> cri::CpuUsage {
    cri::CpuUsage {
        timestamp: usage.at.nanos(),
        usage_core_nano_seconds: number(usage.cgroup.cpu.usage_ns),
        usage_nano_cores: number(usage.nano_cores),
        psi: usage.cgroup.cpu.pressure.map(pressure),
    }
}

/// Memory.
pub(super) fn memory(usage: &Usage) -> cri::MemoryUsage {
    let memory = &usage.cgroup.memory;
    cri::MemoryUsage {
        timestamp: usage.at.nanos(),
        working_set_bytes: number(memory.working_set),
        available_bytes: number(memory.available),
        usage_bytes: number(memory.usage),
        rss_bytes: number(memory.rss),
        page_faults: number(memory.page_faults),
        major_page_faults: number(memory.major_page_faults),
        psi: memory.pressure.map(pressure),
    }
}

/// Block devices; none where the kernel tells nothing of them.
pub(super) fn io(usage: &Usage) -> Option<cri::IoUsage> {
    let psi = usage.cgroup.io.pressure.map(pressure)?;
    Some(cri::IoUsage { timestamp: usage.at.nanos(), psi: Some(psi) })
}

fn swap(usage: &Usage) -> Option<cri::SwapUsage> {
    let memory = &usage.cgroup.memory;
    let used = memory.swap_usage?;
    let available = memory.swap_limit.map(|limit| limit.saturating_sub(used));
    Some(cri::SwapUsage {
        timestamp: usage.at.nanos(),
        swap_available_bytes: number(available),
        swap_usage_bytes: number(Some(used)),
    })
}
