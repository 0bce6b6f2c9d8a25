//! What a container is asked to be: the words of CreateContainer as plain values, without the wire.
//!
//! They are also what the store keeps, so fields may be added here but never change their meaning.

use crate::sandbox::{IdMapping, Namespaces, Resources, SecurityProfile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything CreateContainer says about the container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContainerConfig {
    /// Name within the pod.
    pub name: String,
    /// Which attempt at this container this is.
    pub attempt: u32,
    /// The image to run.
    pub image: ImageSpec,
    /// Replaces the image's entrypoint when not empty.
    pub command: Vec<String>,
    /// Replaces the image's command when not empty.
    pub args: Vec<String>,
    /// Replaces the image's working directory when not empty.
    pub working_dir: String,
    /// Environment, in order; a later one of the same name wins.
    pub envs: Vec<(String, EnvValue)>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Devices of the host.
    pub devices: Vec<Device>,
    /// Labels, returned as given.
    pub labels: BTreeMap<String, String>,
    /// Annotations, returned as given.
    pub annotations: BTreeMap<String, String>,
    /// Log file, relative to the sandbox's log directory; empty for none.
    pub log_path: String,
    /// Keep stdin open.
    pub stdin: bool,
    /// Close stdin after the first attach.
    pub stdin_once: bool,
    /// Run on a terminal.
    pub tty: bool,
    /// Limits.
    pub resources: Resources,
    /// Security settings.
    pub security: ContainerSecurity,
    /// Names of CDI devices.
    pub cdi_devices: Vec<String>,
    /// Signal that asks it to stop; absent means the image's.
    pub stop_signal: Option<u32>,
}

/// The value of an environment variable. Most are text; some are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EnvValue {
    /// Text.
    Text(String),
    /// Bytes that are no UTF-8.
    Bytes(Vec<u8>),
}

impl From<Vec<u8>> for EnvValue {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

/// An image as a request names it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageSpec {
    /// Reference or id.
    pub image: String,
    /// What the pod's author wrote.
    pub user_specified: String,
    /// Runtime handler whose image this is.
    pub runtime_handler: String,
    /// Annotations, returned as given.
    pub annotations: BTreeMap<String, String>,
}

/// A mount as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mount {
    /// Where in the container.
    pub container_path: String,
    /// What of the host; empty for an image mount.
    pub host_path: String,
    /// Read-only at the top.
    pub readonly: bool,
    /// Relabel for SELinux.
    pub selinux_relabel: bool,
    /// Propagation.
    pub propagation: Propagation,
    /// Id mappings of the mount.
    pub uid_mappings: Vec<IdMapping>,
    /// Id mappings of the mount.
    pub gid_mappings: Vec<IdMapping>,
    /// Read-only all the way down.
    pub recursive_read_only: bool,
    /// An image as volume.
    pub image: Option<ImageSpec>,
    /// Directory inside the image.
    pub image_sub_path: String,
    /// Further mount options (noexec, nodev, nosuid).
    pub options: Vec<String>,
}

/// How later mounts travel between host and container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Propagation {
    /// Not at all.
    #[default]
    Private,
    /// From the host into the container.
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// A device of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Device {
    /// Where in the container.
    pub container_path: String,
    /// Node, or directory of nodes, of the host.
    pub host_path: String,
    /// Letters of r, w, m.
    pub permissions: String,
}

/// Security settings of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContainerSecurity {
    /// Capabilities to add.
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop.
    pub drop_capabilities: Vec<String>,
    /// Ambient capabilities to add.
    pub add_ambient_capabilities: Vec<String>,
    /// Everything of the host.
    pub privileged: bool,
    /// Namespaces.
    pub namespaces: Namespaces,
    /// User id.
    pub run_as_user: Option<i64>,
    /// Group id.
    pub run_as_group: Option<i64>,
    /// User name, looked up in the image.
    pub run_as_username: String,
    /// Root file system is read-only.
    pub readonly_rootfs: bool,
    /// Supplemental groups.
    pub supplemental_groups: Vec<i64>,
    /// Whether the image's groups of the user count too.
    pub groups_policy: GroupsPolicy,
    /// Set no_new_privs.
    pub no_new_privs: bool,
    /// Paths to mask, exactly these.
    pub masked_paths: Vec<String>,
    /// Paths to make read-only, exactly these.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile; absent means the runtime's choice (unconfined, as the field has it).
    pub seccomp: Option<SecurityProfile>,
    /// AppArmor profile.
    pub apparmor: Option<SecurityProfile>,
    /// SELinux label, `user:role:type:level`.
    pub selinux: Option<String>,
}

/// What the image's /etc/group has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum GroupsPolicy {
    /// Its groups of the user are added.
    #[default]
    Merge,
    /// Nothing.
    Strict,
}
