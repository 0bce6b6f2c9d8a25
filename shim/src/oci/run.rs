//! `run`: create and start, then wait for the end and clean up, or leave it running with `--detach`.

use std::ffi::OsString;

use super::build::{FLAGS, Made, build, preserved};
use super::{Global, OciError, console, flags, wait};

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<u8, OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let preserved = preserved(&flags)?;
    let signals = wait::Signals::block();
    let Made { mut created, place, lock } = build(global, &flags, preserved, false)?;
    let detach = flags.is_set("detach");
    if let Err(error) = berth_runtime::start(&mut created) {
        let _ = berth_runtime::kill(&created.pidfd, 9);
        let _ = berth_sys::pidfd::wait(&created.pidfd);
        let _ = berth_runtime::delete(&created);
        let _ = place.remove();
        return Err(error.into());
    }
    if detach {
        return Ok(0);
    }
    let dir = lock.release()?;
    if let Some(master) = created.console.take() {
        console::relay(&master, &created.pidfd, &signals);
    }
    let code = wait::until_ended(&created.pidfd, &signals);
    if flags.is_set("keep") {
        return Ok(code);
    }
    // Whoever deleted it meanwhile freed all of it, and another container may have its name.
    if let Some(_lock) = place.relock(dir)? {
        for warning in berth_runtime::delete(&created)? {
            global.log.warn(&warning);
        }
        place.remove()?;
    }
    Ok(code)
}
