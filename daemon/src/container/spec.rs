//! The OCI runtime spec of a container, built from what was asked and from facts gathered beforehand.
//!
//! Nothing here looks at the system: the same input always gives the same spec. One file per subject.

mod annotations;
mod capabilities;
mod devices;
mod mounts;
mod namespaces;
mod process;
mod resources;
mod seccomp;
#[cfg(test)]
mod tests;
mod user;

pub(crate) use mounts::BoundMount;
pub(crate) use resources::resources;
pub(crate) use user::{RunAs, run_as};

use super::ContainerConfig;
use super::target::Target;
use crate::pod::{Error, ImageForContainer};
use crate::sandbox::SandboxRecord;
use berth_core::oci::{Linux, LinuxDevice, LinuxSeccomp, Root, Spec};

/// What the spec is built from.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    /// The sandbox.
    pub(crate) sandbox: &'a SandboxRecord,
    /// What was asked.
    pub(crate) config: &'a ContainerConfig,
    /// Its image.
    pub(crate) image: &'a ImageForContainer,
    /// The cgroup, in the driver's form.
    pub(crate) cgroup: &'a str,
    /// What the host has.
    pub(crate) facts: &'a Facts,
}

/// What was looked up on the host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The request's mounts, with sources that exist.
    pub(crate) mounts: Vec<BoundMount>,
    /// The pod's own files and shared memory, as (source, destination); those that the request mounts itself are
    /// left out by the builder.
    pub(crate) pod_files: Vec<(String, String)>,
    /// The devices asked for, or all of the host's for a privileged container; each with its permissions.
    pub(crate) devices: Vec<(LinuxDevice, String)>,
    /// The daemon's own bounding set.
    pub(crate) bounding: Vec<String>,
    /// The profile of a Localhost reference.
    pub(crate) seccomp: Option<LinuxSeccomp>,
    /// The host name inside.
    pub(crate) hostname: String,
    /// The lowest OOM score adjustment that can be given; none where any can.
    pub(crate) oom_floor: Option<i64>,
    /// The hard limit of open files.
    pub(crate) nofile_hard: u64,
    /// Swap is accounted.
    pub(crate) swap: bool,
    /// Only the unified hierarchy is there.
    pub(crate) unified: bool,
    /// The AppArmor profile to run under.
    pub(crate) apparmor: Option<String>,
    /// The PID namespace of the container that is the target.
    pub(crate) target_pid: Option<Target>,
}

/// Builds the spec.
///
/// # Errors
/// Names the field of the request that makes no sense.
pub(crate) fn build(input: &Input<'_>) -> Result<Spec, Error> {
    let capabilities = capabilities::sets(input)?;
    let security = &input.config.security;
    let sent = |paths: &[String]| if security.privileged { None } else { some_sorted(paths) };
    let resources = resources(&input.config.resources, input.facts.swap);
    let linux = Linux {
        namespaces: Some(namespaces::namespaces(input)?),
        cgroups_path: Some(input.cgroup.into()),
        resources: Some(devices::with_rules(resources, input)),
        devices: devices::nodes(input),
        seccomp: seccomp::profile(input, &capabilities)?,
        rootfs_propagation: mounts::rootfs_propagation(input),
        masked_paths: sent(&security.masked_paths),
        readonly_paths: sent(&security.readonly_paths),
        ..Linux::default()
    };
    Ok(Spec {
        version: berth_core::oci::VERSION.to_owned(),
        process: Some(process::process(input, &capabilities)?),
        root: Some(Root { path: "rootfs".into(), readonly: Some(security.readonly_rootfs) }),
        mounts: Some(mounts::mounts(input)?),
        annotations: Some(annotations::annotations(input)),
        linux: Some(linux),
        ..Spec::default()
    })
}

/// Each path once: hundreds of duplicates are not mounted twice.
fn some_sorted(paths: &[String]) -> Option<Vec<String>> {
    let mut paths = paths.to_vec();
    paths.sort_unstable();
    paths.dedup();
    (!paths.is_empty()).then_some(paths)
}
