//! The worker process: takes one request on its standard input, confines itself, applies one layer, answers, ends.

use super::confine;
use super::input::Input;
use super::pipeline;
use super::report::{Failure, FailureKind};
use super::wire::{self, Answer, Request};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Entry of `berthd unpack`. Standard input is the socket to the daemon.
#[must_use]
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("unpack: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (request, dir, data) = wire::receive_request(&socket)?;
    let answer = work(&request, dir, data, &socket);
    wire::send_answer(&socket, &answer)
}

fn work(request: &Request, dir: OwnedFd, data: OwnedFd, socket: &UnixStream) -> Answer {
    let internal = |what: &str, error: &dyn std::fmt::Display| Failure {
        kind: FailureKind::Internal,
        text: format!("{what}: {error}"),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let root = openat2(&dir, c"fs", flags, Mode::empty(), resolve)
        .map_err(|error| internal("open the layer's directory", &error))?;
    // A handle from outside would lead out again.
    drop(dir);
    let root = confine::without_devices(root)
        .map_err(|error| internal("keep devices out of the layer's directory", &error))?;
    confine::confine(&root, request.limits.max_file)
        .map_err(|error| internal("confine the worker", &error))?;
    let socket = socket.try_clone().map_err(|error| internal("copy the socket", &error))?;
    pipeline::run(Input::new(request.source, data, socket), root, request.algorithm(), request.limits)
}
