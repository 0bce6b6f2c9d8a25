//! Groups made by systemd as transient scopes.

use oci_spec::runtime::LinuxResources;

use crate::error::{CgroupError, Result};
use crate::group::Plan;
use crate::group::places::Places;
use crate::hierarchy::{Hierarchies, Mode};
use crate::path::CgroupPath;

/// A scope that is not started yet.
#[derive(Debug)]
pub(crate) struct Pending {}

impl Pending {
    pub(crate) fn new(
        _hierarchies: &Hierarchies,
        _path: &CgroupPath,
        _resources: &LinuxResources,
        _plan: Plan,
    ) -> Result<Self> {
        Err(CgroupError::Systemd("not there yet".to_owned()))
    }

    pub(crate) fn start(&self, _pid: i32) -> Result<Places> {
        Err(CgroupError::Systemd("not there yet".to_owned()))
    }
}

pub(crate) fn update(_path: &CgroupPath, _mode: Mode, _resources: &LinuxResources) -> Result<()> {
    Ok(())
}

pub(crate) fn stop(_path: &CgroupPath) -> Result<()> {
    Ok(())
}
