//! Mounts: the file systems every container has, the pod's files, the request's own. The request wins.

use super::super::Propagation;
use super::Input;
use crate::pod::Error;
use berth_core::oci::Mount;
use std::collections::BTreeSet;

/// A mount of the request whose source exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BoundMount {
    /// What of the host, without symbolic links.
    pub(crate) source: String,
    /// Where in the container.
    pub(crate) destination: String,
    /// Read-only at the top.
    pub(crate) readonly: bool,
    /// Read-only all the way down.
    pub(crate) recursive: bool,
    /// Propagation.
    pub(crate) propagation: Propagation,
    /// noexec, nodev, nosuid.
    pub(crate) options: Vec<String>,
}

/// Destination, type, source, options.
type Fixed = (&'static str, &'static str, &'static str, &'static [&'static str]);

const FIXED: [Fixed; 5] = [
    ("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
    ("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
    ),
    ("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
    ("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev"]),
];

pub(super) fn mounts(input: &Input<'_>) -> Result<Vec<Mount>, Error> {
    let mut wanted = Vec::with_capacity(input.facts.mounts.len());
    for mount in &input.facts.mounts {
        wanted.push((clean(&mount.destination)?, mount));
    }
    let taken: BTreeSet<&str> = wanted.iter().map(|(destination, _)| destination.as_str()).collect();
    let free = |destination: &str| {
        let below_dev = destination.starts_with("/dev/") && taken.contains("/dev");
        !taken.contains(destination) && !below_dev
    };
    let mut all: Vec<Mount> =
        fixed(input).filter(|mount| free(&mount.destination().to_string_lossy())).collect();
    let mut bound: Vec<(String, Mount)> = Vec::new();
    for (source, destination) in &input.facts.pod_files {
        if free(destination) {
            bound.push((destination.clone(), pod_file(input, source, destination)));
        }
    }
    bound.extend(wanted.iter().map(|(destination, mount)| (destination.clone(), bind(mount, destination))));
    // Parents before children; those of one depth as they were given, so that the last one is on top.
    bound.sort_by_key(|(destination, _)| depth(destination));
    all.extend(bound.into_iter().map(|(_, mount)| mount));
    Ok(all)
}

fn fixed<'a>(input: &'a Input<'_>) -> impl Iterator<Item = Mount> + 'a {
    let access = if input.config.security.privileged { "rw" } else { "ro" };
    let plain = FIXED.iter().map(move |(destination, kind, source, options)| {
        let mut options: Vec<&str> = options.to_vec();
        if *destination == "/sys" {
            options.push(access);
        }
        mount(destination, kind, source, &options)
    });
    let cgroup = ["nosuid", "noexec", "nodev", "relatime", access];
    plain.chain([mount("/sys/fs/cgroup", "cgroup", "cgroup", &cgroup)])
}

fn pod_file(input: &Input<'_>, source: &str, destination: &str) -> Mount {
    let shm = destination == "/dev/shm";
    let access = if input.config.security.readonly_rootfs && !shm { "ro" } else { "rw" };
    mount(destination, "bind", source, &["rbind", "rprivate", access])
}

fn bind(bound: &BoundMount, destination: &str) -> Mount {
    let propagation = match bound.propagation {
        Propagation::Private => "rprivate",
        Propagation::HostToContainer => "rslave",
        Propagation::Bidirectional => "rshared",
    };
    let access = match (bound.readonly, bound.recursive) {
        (true, true) => "rro",
        (true, false) => "ro",
        (false, _) => "rw",
    };
    let mut options = vec!["rbind", propagation, access];
    options.extend(bound.options.iter().map(String::as_str));
    mount(destination, "bind", &bound.source, &options)
}

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.into(),
        typ: Some(kind.to_owned()),
        source: Some(source.into()),
        options: Some(options.iter().map(|option| (*option).to_owned()).collect()),
        ..Mount::default()
    }
}

/// The propagation of the root: mounts can only travel as far as it lets them.
pub(super) fn rootfs_propagation(input: &Input<'_>) -> Option<String> {
    let widest = input.facts.mounts.iter().map(|mount| mount.propagation).max_by_key(|kind| match kind {
        Propagation::Private => 0,
        Propagation::HostToContainer => 1,
        Propagation::Bidirectional => 2,
    });
    match widest {
        Some(Propagation::Bidirectional) => Some("rshared".to_owned()),
        Some(Propagation::HostToContainer) => Some("rslave".to_owned()),
        _ => None,
    }
}

/// The destination without empty, "." and ".." parts.
fn clean(destination: &str) -> Result<String, Error> {
    if !destination.starts_with('/') || destination.contains('\0') {
        let problem = format!("{destination:?} must be absolute");
        return Err(Error::invalid("config.mounts.container_path", problem));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in destination.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    match parts.is_empty() {
        true => Err(Error::invalid("config.mounts.container_path", "is the root of the container")),
        false => Ok(format!("/{}", parts.join("/"))),
    }
}

fn depth(destination: &str) -> usize {
    destination.matches('/').count()
}
