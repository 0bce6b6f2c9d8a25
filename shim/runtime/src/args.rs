//! What the runtime is asked for, and what it gives back.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use berth_cgroup::{Cgroup, Driver, Hierarchies};
use berth_core::oci::{LinuxNamespaceType, Process, Spec};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::seccomp::Program;

/// An overlay mount that init makes inside the container's own mount namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayPlan {
    /// Absolute layer directories, topmost first.
    pub lower: Vec<PathBuf>,
    /// The writable directory; none makes the rootfs read-only.
    pub upper: Option<PathBuf>,
    /// overlayfs's own directory beside `upper`.
    pub work: Option<PathBuf>,
    /// Further overlay options, `key` or `key=value`.
    pub options: Vec<String>,
}

/// The user as the image and the pod name it; resolved by init against the rootfs's own /etc/passwd and /etc/group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserLookup {
    /// `""`, `name`, `uid`, `name:group`, `uid:gid`.
    pub name: String,
    /// Wins over the group that `name` implies.
    pub gid: Option<u32>,
    /// Groups asked for by the pod.
    pub supplemental: Vec<u32>,
    /// Adds the groups that the image's /etc/group gives the user.
    pub merge_image_groups: bool,
}

/// Who the container runs as, in ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedUser {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups, sorted, without duplicates.
    pub groups: Vec<u32>,
    /// Home directory, when /etc/passwd told one.
    pub home: Option<String>,
}

/// Where the program's standard streams lead.
#[derive(Debug)]
pub enum Stdio {
    /// Standard input, output and error as given.
    Fds([OwnedFd; 3]),
    /// A terminal made inside the container; the master comes back.
    Terminal,
}

/// How the container's cgroup is made.
#[derive(Debug, Clone)]
pub struct CgroupArgs {
    /// What `linux.cgroupsPath` is written for.
    pub driver: Driver,
    /// The machine's hierarchies, discovered once per process.
    pub hierarchies: Arc<Hierarchies>,
}

/// One container to build.
#[derive(Debug)]
pub struct CreateArgs {
    /// Its id.
    pub id: String,
    /// The absolute directory that holds config.json; relative paths in it start here.
    pub bundle: PathBuf,
    /// The OCI configuration.
    pub spec: Spec,
    /// The root file system, when it is not `root.path` as it is.
    pub overlay: Option<OverlayPlan>,
    /// The user, when it is not `process.user` as it is.
    pub user: Option<UserLookup>,
    /// The program's standard streams.
    pub stdio: Stdio,
    /// Further descriptors the program keeps, from 3 on.
    pub preserved: Vec<OwnedFd>,
    /// The cgroup's driver and place.
    pub cgroup: CgroupArgs,
    /// The binary that answers to `init`, see `berth_sys::sealed_exe`.
    pub exe: Arc<OwnedFd>,
    /// Namespaces to join by descriptor, over what the configuration's `linux.namespaces` says of that kind.
    pub namespaces: Vec<(LinuxNamespaceType, OwnedFd)>,
    /// A listening socket on which init also takes the order to start; for callers that do not live until then.
    pub listener: Option<OwnedFd>,
    /// Rarely needed switches.
    pub switches: Switches,
}

/// Rarely needed switches of [`CreateArgs`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// Move the root instead of pivoting (a rootfs on the initial ramdisk).
    pub no_pivot: bool,
    /// Keep the caller's session keyring.
    pub no_new_keyring: bool,
    /// Refuse at once a program that is not there, not only when it is to be executed.
    pub early_program: bool,
}

/// A container built up to the point before execve. Whoever holds it is the parent of its first process and has to reap it.
#[derive(Debug)]
pub struct Created {
    /// Its id.
    pub id: String,
    /// Its first process.
    pub pid: i32,
    /// That process's handle.
    pub pidfd: OwnedFd,
    /// Who it runs as.
    pub user: ResolvedUser,
    /// The terminal's master, for [`Stdio::Terminal`].
    pub console: Option<OwnedFd>,
    /// Its cgroup.
    pub cgroup: Cgroup,
    /// What could not be done as asked, but was no reason to fail.
    pub warnings: Vec<String>,
    /// What an exec inherits.
    pub context: Arc<Context>,
    pub(crate) channel: Option<Channel>,
    /// Network devices that come back unless the container is kept.
    pub(crate) moved: Option<crate::netdevice::Moved>,
}

impl Created {
    /// The container is in its maker's books: the network devices that were moved into it are its own from now on. Before that, and
    /// before it is started, they come back when this is dropped.
    pub fn keep(&mut self) {
        if let Some(moved) = self.moved.take() {
            moved.leave();
        }
    }
}

/// What a further process of the container inherits from the first.
#[derive(Debug)]
pub struct Context {
    /// The container's id.
    pub id: String,
    /// The bundle's directory.
    pub bundle: PathBuf,
    /// The configuration with the user resolved, without `linux.seccomp`.
    pub spec: Spec,
    /// The compiled filter.
    pub seccomp: Option<Program>,
    /// `linux.seccomp.listenerPath` and `listenerMetadata`.
    pub listener: Option<(PathBuf, String)>,
    /// Whether the container kept its creator's session keyring.
    pub no_new_keyring: bool,
}

impl Context {
    /// The context of a container that another process made: its configuration, and the filter that was compiled then.
    pub fn restored(id: &str, bundle: &std::path::Path, mut spec: Spec, filter: Option<Program>) -> Self {
        let seccomp = spec.linux.as_mut().and_then(|linux| linux.seccomp.take());
        let wants = filter.as_ref().is_some_and(Program::wants_listener);
        let listener = seccomp.filter(|_| wants).and_then(|s| {
            s.listener_path().clone().map(|path| (path, s.listener_metadata().clone().unwrap_or_default()))
        });
        Self {
            id: id.to_owned(),
            bundle: bundle.to_owned(),
            spec,
            seccomp: filter,
            listener,
            no_new_keyring: false,
        }
    }

    /// What its hooks are told.
    pub fn hooked(&self) -> Hooked<'_> {
        Hooked { id: &self.id, bundle: &self.bundle, spec: &self.spec }
    }
}

/// A container whose hooks are run.
#[derive(Debug, Clone, Copy)]
pub struct Hooked<'a> {
    /// Its id.
    pub id: &'a str,
    /// The bundle's directory.
    pub bundle: &'a std::path::Path,
    /// The configuration, which has the hooks and the annotations.
    pub spec: &'a Spec,
}

/// One more process for a container.
#[derive(Debug)]
pub struct ExecArgs<'a> {
    /// The container, see [`Created::context`].
    pub context: &'a Context,
    /// Its first process.
    pub pid: i32,
    /// That process's handle.
    pub pidfd: &'a OwnedFd,
    /// The container's cgroup.
    pub cgroup: &'a Cgroup,
    /// A directory of the unified tree, below the container's, to be born in instead of that; v1 is joined all the same.
    pub kill_group: Option<OwnedFd>,
    /// Groups below the container's to be in, in place of its own.
    pub places: Option<ExecPlaces>,
    /// What to run.
    pub program: ExecProgram,
    /// Its standard streams.
    pub stdio: Stdio,
    /// Further descriptors it keeps, from 3 on.
    pub preserved: Vec<OwnedFd>,
    /// The binary that answers to `init`.
    pub exe: &'a OwnedFd,
}

/// Directories of cgroups below the container's own.
#[derive(Debug, Clone, Default)]
pub struct ExecPlaces {
    /// One in each v1 hierarchy.
    pub v1: Vec<PathBuf>,
    /// The one in the unified tree.
    pub unified: Option<PathBuf>,
}

/// What an exec runs.
#[derive(Debug, Clone)]
pub enum ExecProgram {
    /// These arguments, everything else as the container's own process: the first is looked up in its PATH.
    Argv(Vec<String>),
    /// A process of its own; what is unset there is not inherited, but for the seccomp filter, rlimits and capabilities.
    Process(Box<Process>),
}

/// A running exec. The caller is its parent and has to reap it.
#[derive(Debug)]
pub struct Exec {
    /// Its process.
    pub pid: i32,
    /// That process's handle.
    pub pidfd: OwnedFd,
    /// The terminal's master, for [`Stdio::Terminal`].
    pub console: Option<OwnedFd>,
    /// What could not be done as asked, but was no reason to fail.
    pub warnings: Vec<String>,
}
