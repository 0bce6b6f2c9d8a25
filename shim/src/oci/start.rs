//! `start`: a created container runs its program.

use std::ffi::OsString;

use super::container::{Container, Status};
use super::{Global, OciError, flags};

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(&[], args)?;
    let (container, _lock) = Container::locked(global, flags.sole_id()?)?;
    container.must_be(&[Status::Created])?;
    container.place.start()?;
    let outcome = berth_runtime::poststart(container.hooked(&container.later()?), container.record.pid);
    if let (Err(_), Some(pidfd)) = (&outcome, container.process()) {
        // A start that failed leaves nothing running.
        berth_runtime::kill(&pidfd, 9)?;
        super::delete::ended(&pidfd);
    }
    Ok(outcome?)
}
