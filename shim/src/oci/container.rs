//! A container as later commands find it: its record, its process, its cgroup.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies};
use berth_core::oci::Spec;
use berth_runtime::{Context, Hooked};
use serde::Serialize;

use super::store::{Lock, Place, Record};
use super::{Global, OciError};

/// The words of the specification, and `paused`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Created,
    Running,
    Paused,
    Stopped,
}

impl Status {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

/// A container that exists.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) place: Place,
    pub(crate) record: Record,
}

/// Refuses where no command could find another's container: one that runs must not pass for one that has ended.
pub(crate) fn must_be_found_again() -> Result<(), OciError> {
    if !berth_sys::lacks(berth_sys::Call::PidfdOpen) {
        return Ok(());
    }
    let text = "pidfd_open is missing here, or a seccomp filter around the runtime forbids it: containers can only be run";
    Err(OciError::State(text.to_owned()))
}

impl Container {
    pub(crate) fn load(global: &Global, id: &str) -> Result<Self, OciError> {
        must_be_found_again()?;
        let place = Place::of(global, id)?;
        let record = place.record()?;
        Ok(Self { place, record })
    }

    /// The same, as it is while no other command works on it.
    pub(crate) fn locked(global: &Global, id: &str) -> Result<(Self, Lock), OciError> {
        let lock = Place::of(global, id)?.lock()?;
        Ok((Self::load(global, id)?, lock))
    }

    /// Its first process, if that still lives. A process that has its number by chance is not it.
    pub(crate) fn process(&self) -> Option<OwnedFd> {
        let pidfd = berth_sys::pidfd::open(self.record.pid).ok()?;
        let same = started_ticks(self.record.pid) == Some(self.record.started_ticks);
        (same && !berth_sys::pidfd::has_ended(&pidfd)).then_some(pidfd)
    }

    pub(crate) fn status(&self) -> Status {
        if self.process().is_none() {
            return Status::Stopped;
        }
        match self.cgroup() {
            Ok(cgroup) if cgroup.is_frozen() == Some(true) => Status::Paused,
            _ if self.place.socket().exists() => Status::Created,
            _ => Status::Running,
        }
    }

    pub(crate) fn cgroup(&self) -> Result<Cgroup, OciError> {
        let driver = if self.record.systemd { Driver::Systemd } else { Driver::Cgroupfs };
        let path = CgroupPath::parse(driver, &self.record.cgroup)?;
        Ok(Cgroup::open(&Hierarchies::discover()?, &path)?)
    }

    /// What further processes inherit.
    pub(crate) fn context(&self) -> Result<Context, OciError> {
        let spec = self.place.spec()?;
        let filter = self.place.filter(&spec)?;
        Ok(Context::restored(&self.record.id, &self.record.bundle, spec, filter))
    }

    /// The configuration; an empty one where later commands have nothing to do with it.
    pub(crate) fn later(&self) -> Result<Spec, OciError> {
        if self.record.later { self.place.spec() } else { Ok(Spec::default()) }
    }

    /// What hooks are told, with the configuration of [`Self::later`].
    pub(crate) fn hooked<'a>(&'a self, spec: &'a Spec) -> Hooked<'a> {
        Hooked { id: &self.record.id, bundle: &self.record.bundle, spec }
    }

    /// Refuses unless the container is in one of `states`.
    pub(crate) fn must_be(&self, states: &[Status]) -> Result<Status, OciError> {
        let status = self.status();
        if states.contains(&status) {
            return Ok(status);
        }
        let wanted: Vec<&str> = states.iter().map(|s| s.word()).collect();
        let (id, wanted) = (&self.record.id, wanted.join(" or "));
        Err(OciError::State(format!("container {id} is {}, not {wanted}", status.word())))
    }

    /// The state as `state` and `list` show it.
    pub(crate) fn shown(&self) -> Shown {
        let status = self.status();
        let annotations = self.place.spec().ok().and_then(|s| s.annotations().clone()).unwrap_or_default();
        Shown {
            oci_version: berth_runtime::hooks::OCI_VERSION,
            id: self.record.id.clone(),
            pid: if status == Status::Stopped { 0 } else { self.record.pid },
            status: status.word(),
            bundle: self.record.bundle.display().to_string(),
            rootfs: self.record.rootfs.display().to_string(),
            created: super::log::stamp(self.record.created),
            annotations: annotations.into_iter().collect(),
            owner: self.record.owner.clone(),
        }
    }
}

/// The state of a container in runc's form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    pub(crate) oci_version: &'static str,
    pub(crate) id: String,
    pub(crate) pid: i32,
    pub(crate) status: &'static str,
    pub(crate) bundle: String,
    pub(crate) rootfs: String,
    pub(crate) created: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) owner: String,
}

/// When a process began, in clock ticks after boot.
pub(crate) fn started_ticks(pid: i32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name, in parentheses, may hold anything; the 22nd field is the 20th after it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
