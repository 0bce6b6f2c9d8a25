//! `pause` and `resume`.

use std::ffi::OsString;

use super::container::{Container, Status};
use super::{Global, OciError, flags};

pub(crate) fn pause(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(&[], args)?;
    let container = Container::load(global, flags.sole_id()?)?;
    container.must_be(&[Status::Running, Status::Created])?;
    Ok(container.cgroup()?.freeze()?)
}

pub(crate) fn resume(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(&[], args)?;
    let container = Container::load(global, flags.sole_id()?)?;
    container.must_be(&[Status::Paused])?;
    Ok(container.cgroup()?.thaw()?)
}
