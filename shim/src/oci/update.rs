//! `update`: other limits for a container that exists.

use std::ffi::OsString;

use super::container::{Container, Status};
use super::{Global, OciError, flags, resources};

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(resources::FLAGS, args)?;
    let (container, _lock) = Container::locked(global, flags.sole_id()?)?;
    container.must_be(&[Status::Created, Status::Running, Status::Paused])?;
    let resources = resources::from_flags(&flags)?;
    Ok(container.cgroup()?.set(&resources)?)
}
