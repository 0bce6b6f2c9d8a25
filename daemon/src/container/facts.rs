//! Facts for the spec, looked up on the host.

use super::create::Place;
use super::label::{self, Lsms};
use super::spec::Facts;
use super::target::Target;
use super::{ContainerConfig, Device, host_path};
use crate::container::ContainerState;
use crate::pod::{Error, Ground};
use crate::sandbox::{FILES, NamespaceMode, SecurityProfile};
use berth_cgroup::{Hierarchies, Mode};
use berth_core::ContainerId;
use berth_core::oci::{Capability, LinuxDevice, LinuxDeviceType, LinuxSeccomp};
use rustix::fs::{FileType, Stat};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest seccomp profile read.
const PROFILE_MAX: u64 = 4 << 20;
/// Parts of the host's /dev that are not devices of the host.
const NOT_DEVICES: [&str; 8] = ["pts", "shm", "fd", "mqueue", "console", ".lxc", ".lxd-mounts", ".udev"];
const CAP_SYS_RESOURCE: u32 = 24;

/// Gathers the facts for one container.
pub(super) async fn gather(place: &Place<'_>, config: &Arc<ContainerConfig>) -> Result<Facts, Error> {
    // Beside each other: ten volumes of one dead server take no longer than one.
    let mounts = config.mounts.iter().map(|mount| host_path::resolve(place.ground, mount));
    let (mounts, ()) = tokio::try_join!(futures_util::future::try_join_all(mounts), answer(place, config))?;
    let target_pid = target(place, config)?;
    let pod_files = pod_files(place);
    let (ground, config) = (Arc::clone(place.ground), Arc::clone(config));
    let hostname = hostname(place);
    let looked = place.ground.block("gather facts for a container", move || {
        Ok(Facts {
            mounts,
            pod_files,
            devices: devices(&config)?,
            bounding: bounding()?,
            seccomp: localhost_profile(&config)?,
            hostname,
            oom_floor: oom_floor(),
            nofile_hard: nofile_hard(),
            swap: swap_accounted(&ground.hierarchies),
            unified: ground.hierarchies.mode() == Mode::V2,
            apparmor: label::profile(&config, Lsms::look())?,
            target_pid,
        })
    });
    looked.await
}

/// Devices and profiles are read below in a thread of the daemon's, so they must answer before.
async fn answer(place: &Place<'_>, config: &ContainerConfig) -> Result<(), Error> {
    let devices = config.devices.iter().map(|device| ("config.devices", device.host_path.as_str()));
    let profile = match &config.security.seccomp {
        Some(SecurityProfile::Localhost(path)) => Some(("the seccomp profile", path.as_str())),
        _ => None,
    };
    let named = devices.chain(profile).map(|(step, path)| host_path::answers(place.ground, step, path));
    futures_util::future::try_join_all(named).await.map(drop)
}

fn hostname(place: &Place<'_>) -> String {
    let config = &place.sandbox.config;
    match config.hostname.as_str() {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        _ if config.host_network() => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    }
}

fn pod_files(place: &Place<'_>) -> Vec<(String, String)> {
    let paths = place.ground.paths(place.sandbox.id);
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut all: Vec<(String, String)> =
        FILES.iter().map(|(name, destination)| (text(paths.file(name)), (*destination).to_owned())).collect();
    let shm = if place.sandbox.config.host_ipc() { "/dev/shm".to_owned() } else { text(paths.shm()) };
    all.push((shm, "/dev/shm".to_owned()));
    all
}

fn target(place: &Place<'_>, config: &ContainerConfig) -> Result<Option<Target>, Error> {
    let namespaces = &config.security.namespaces;
    if namespaces.pid != NamespaceMode::Target {
        return Ok(None);
    }
    let field = "config.linux.security_context.namespace_options.target_id";
    let id =
        ContainerId::parse(&namespaces.target).map_err(|error| Error::invalid(field, error.to_string()))?;
    match place.pod.containers.get(&id).map(|record| &record.state) {
        Some(ContainerState::Running { pid, .. }) => Target::open(*pid, id).map(Some),
        Some(_) => Err(Error::invalid(field, format!("container {id} is not running"))),
        None => Err(Error::invalid(field, format!("container {id} is not in this pod"))),
    }
}

fn devices(config: &ContainerConfig) -> Result<Vec<(LinuxDevice, String)>, Error> {
    let mut all = Vec::new();
    if config.security.privileged {
        let everything =
            Device { container_path: "/dev".into(), host_path: "/dev".into(), permissions: "rwm".into() };
        walk(Path::new("/dev"), &everything, &mut all)?;
    }
    for device in &config.devices {
        let path = Path::new(&device.host_path);
        let found = rustix::fs::stat(path).map_err(|errno| {
            Error::invalid("config.devices", format!("look at {:?}: {errno}", device.host_path))
        })?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => walk(path, device, &mut all)?,
            _ => match node(&found, Path::new(&inside(device))) {
                Some(node) => all.push((node, permissions(device))),
                None => {
                    return Err(Error::invalid(
                        "config.devices",
                        format!("{:?} is no device", device.host_path),
                    ));
                }
            },
        }
    }
    Ok(all)
}

fn inside(device: &Device) -> String {
    if device.container_path.is_empty() { device.host_path.clone() } else { device.container_path.clone() }
}

fn permissions(device: &Device) -> String {
    if device.permissions.is_empty() { "rwm".to_owned() } else { device.permissions.clone() }
}

/// Every device below a directory. What vanishes meanwhile is left out.
fn walk(dir: &Path, device: &Device, all: &mut Vec<(LinuxDevice, String)>) -> Result<(), Error> {
    let entries = std::fs::read_dir(dir);
    let entries = entries.map_err(|error| Error::internal(format!("list {}", dir.display()), error))?;
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort_unstable();
    for name in names {
        let path = dir.join(&name);
        let skipped = dir == Path::new("/dev") && NOT_DEVICES.iter().any(|skipped| name == *skipped);
        let Ok(found) = rustix::fs::lstat(&path) else { continue };
        match FileType::from_raw_mode(found.st_mode) {
            _ if skipped => {}
            FileType::Directory => walk(&path, device, all)?,
            _ => {
                let below = path.strip_prefix(&device.host_path).unwrap_or(&path);
                let place = Path::new(&inside(device)).join(below);
                all.extend(node(&found, &place).map(|node| (node, permissions(device))));
            }
        }
    }
    Ok(())
}

fn node(found: &Stat, path: &Path) -> Option<LinuxDevice> {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice => LinuxDeviceType::C,
        FileType::BlockDevice => LinuxDeviceType::B,
        _ => return None,
    };
    Some(LinuxDevice {
        path: path.to_owned(),
        typ: kind,
        major: rustix::fs::major(found.st_rdev).into(),
        minor: rustix::fs::minor(found.st_rdev).into(),
        file_mode: Some(found.st_mode & 0o7777),
        uid: Some(found.st_uid),
        gid: Some(found.st_gid),
    })
}

/// A line of the daemon's own /proc/self/status, as a hexadecimal mask.
fn mask(line: &str) -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status");
    let status = status.map_err(|error| Error::internal("read /proc/self/status", error))?;
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let parsed = value.and_then(|value| u64::from_str_radix(value.trim(), 16).ok());
    parsed.ok_or_else(|| Error::internal("read /proc/self/status", format!("no {line}")))
}

fn bounding() -> Result<Vec<String>, Error> {
    let mask = mask("CapBnd")?;
    let names = Capability::NAMES.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
    Ok(names.map(|(_, name)| format!("CAP_{name}")).collect())
}

/// Without CAP_SYS_RESOURCE nobody can be given less than the daemon has itself.
fn oom_floor() -> Option<i64> {
    let may_lower = mask("CapEff").is_ok_and(|mask| mask & (1 << CAP_SYS_RESOURCE) != 0);
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    if may_lower { None } else { own }
}

fn nofile_hard() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(1 << 20)
}

fn swap_accounted(hierarchies: &Hierarchies) -> bool {
    let v1 = hierarchies.v1_mounts();
    let memory = v1.iter().find(|(_, controllers)| controllers.iter().any(|name| name == "memory"));
    match memory {
        Some((mount, _)) => mount.join("memory.memsw.limit_in_bytes").exists(),
        None => hierarchies.unified_mount().is_some_and(|mount| below(&mount, "memory.swap.max")),
    }
}

/// The root group of the unified hierarchy has no limits; its children tell.
fn below(mount: &Path, file: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(mount) else { return false };
    entries.filter_map(Result::ok).any(|entry| entry.path().join(file).exists())
}

fn localhost_profile(config: &ContainerConfig) -> Result<Option<LinuxSeccomp>, Error> {
    use std::io::Read;
    let Some(SecurityProfile::Localhost(path)) = &config.security.seccomp else { return Ok(None) };
    let field = "config.linux.security_context.seccomp.localhost_ref";
    let refuse = |problem: String| Error::invalid(field, format!("{path:?}: {problem}"));
    if !path.starts_with('/') {
        return Err(refuse("must be an absolute path".to_owned()));
    }
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(PROFILE_MAX).read_to_end(&mut text));
    read.map_err(|error| refuse(error.to_string()))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| refuse(format!("is no seccomp profile: {error}")))
}

/// True once the cgroups of this node account for swap; for Status and updates.
pub(super) fn swap(ground: &Ground) -> bool {
    swap_accounted(&ground.hierarchies)
}
