//! start: the program runs, or the reason why not.

use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::args::Created;
use crate::channel::Channel;
use crate::error::{At, Error};
use crate::{hooks, launch};

/// Lets a created container run its program; returns once execve has happened.
///
/// # Errors
/// Why the program cannot be executed, with its path and the errno. The container's process has ended then, with a code other
/// than 0, and is to be reaped and deleted as ever. Also when a poststart hook failed.
pub fn start(created: &mut Created) -> Result<(), Error> {
    let Some(channel) = created.channel.take() else {
        return Err(Error::State { id: created.id.clone(), state: "was started before".to_owned() });
    };
    // A program that does not run leaves nothing behind.
    let moved = created.moved.take();
    launch::release(channel)?;
    if let Some(moved) = moved {
        moved.leave();
    }
    poststart(created.context.hooked(), created.pid)
}

/// Lets a created container outlive this process: from here on it waits for [`start_by_socket`]. Until then it ends with us, so
/// that no container stays of which nobody has a record.
///
/// # Errors
/// The container's process has ended.
pub fn entrust(created: &mut Created) -> Result<(), Error> {
    let Some(channel) = created.channel.take() else { return Ok(()) };
    channel.send(&crate::wire::Go::Continue(created.pid)).step("leave the container to itself")?;
    created.keep();
    Ok(())
}

/// As [`start`], for a container whose creator has gone: through the socket it listens on.
///
/// # Errors
/// As [`start`].
pub fn start_by_socket(socket: &Path) -> Result<(), Error> {
    let stream = UnixStream::connect(socket)
        .at("connect to the container's process", socket)
        .map_err(|f| f.note("it was started before, or has ended"))?;
    Ok(launch::release(Channel::new(stream.into()))?)
}

/// Runs the hooks that follow the start.
///
/// # Errors
/// The hook that failed.
pub fn poststart(of: crate::args::Hooked<'_>, pid: i32) -> Result<(), Error> {
    let Some(list) = of.spec.hooks().as_ref().and_then(|h| h.poststart().as_ref()) else {
        return Ok(());
    };
    let state = hooks::state_text(of.id, "running", Some(pid), of.bundle, of.spec);
    Ok(hooks::run_all("poststart", list, &state)?)
}
