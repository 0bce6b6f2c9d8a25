//! What can go wrong with a control group.

use std::path::PathBuf;

use rustix::io::Errno;

use crate::path::PathError;

/// Result of this crate's verbs.
pub type Result<T> = std::result::Result<T, CgroupError>;

/// A failed step on a control group, with the file it concerned.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A system call on a cgroup file or directory failed.
    #[error("cgroup: {step} {path}: {errno}")]
    Io {
        /// What was tried ("mkdir", "write", ...).
        step: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        errno: Errno,
    },
    /// The kernel refused the value of a setting.
    #[error("cgroup: set {path} to {value:?}: {errno}")]
    Set {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// What the kernel said.
        #[source]
        errno: Errno,
    },
    /// A limit is asked for that this host has no controller for.
    #[error(
        "cgroup: {setting} is set, but this host has no {controller} controller; drop the limit or enable it"
    )]
    ControllerMissing {
        /// The controller's name.
        controller: &'static str,
        /// The setting of the runtime specification.
        setting: String,
    },
    /// A setting makes no sense, alone or with others.
    #[error("cgroup: {setting}: {reason}")]
    Invalid {
        /// The setting of the runtime specification.
        setting: String,
        /// Why not.
        reason: String,
    },
    /// The group holds processes already.
    #[error("cgroup {path} exists and is not empty: another container uses it, or a process was left behind")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The group is in no hierarchy.
    #[error("cgroup {path} does not exist")]
    NotFound {
        /// Its path below the mounts.
        path: String,
    },
    /// The kernel did not get there in time.
    #[error("cgroup {path}: not {state} after {seconds} s")]
    Timeout {
        /// The directory.
        path: PathBuf,
        /// What was waited for ("frozen", "empty").
        state: &'static str,
        /// How long.
        seconds: u64,
    },
    /// The host's cgroup mounts could not be read.
    #[error("cgroup mounts: {0}")]
    Discover(String),
    /// The path has the wrong form.
    #[error(transparent)]
    Path(#[from] PathError),
    /// systemd could not be asked or said no.
    #[error("systemd: {0}")]
    Systemd(String),
    /// The device filter could not be loaded or attached.
    #[error("device filter: {step}: {errno}")]
    DeviceFilter {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        #[source]
        errno: Errno,
    },
}

impl CgroupError {
    pub(crate) fn io(step: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(Errno) -> Self {
        let path = path.into();
        move |errno| Self::Io { step, path, errno }
    }

    /// The errno behind the error, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { errno, .. } | Self::Set { errno, .. } | Self::DeviceFilter { errno, .. } => {
                Some(*errno)
            }
            _ => None,
        }
    }
}
