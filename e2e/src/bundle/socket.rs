//! The other end of `--console-socket`, `--pidfd-socket` and a seccomp listener's path: it takes descriptors.

use super::command::wait_for;
use anyhow::{Context, Result};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// A listening socket.
#[derive(Debug)]
pub struct Receiver(UnixListener);

/// What came: bytes, descriptors, and the connection, for as long as the other side needs it.
#[derive(Debug)]
pub struct Received {
    /// The bytes of the first message.
    pub bytes: Vec<u8>,
    /// The descriptors that came with it.
    pub fds: Vec<OwnedFd>,
    /// The connection.
    pub stream: UnixStream,
}

impl Receiver {
    /// Listens on a path, which has to be short.
    pub fn new(path: &Path) -> Result<Self> {
        let listener = UnixListener::bind(path).with_context(|| path.display().to_string())?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Takes one connection and its first message.
    pub fn receive(&self) -> Result<Received> {
        let mut stream = None;
        wait_for("a connection", || {
            stream = self.0.accept().ok().map(|(stream, _)| stream);
            Ok(stream.is_some())
        })?;
        let stream = stream.context("no connection")?;
        stream.set_nonblocking(false)?;
        let mut bytes = vec![0; 64 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let length = recvmsg(&stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        bytes.truncate(length);
        Ok(Received { bytes, fds, stream })
    }
}
