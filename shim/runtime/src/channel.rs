//! A stream of length-prefixed frames over a socket, with a descriptor now and then.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A frame larger than this is no message of ours.
const MAX_FRAME: usize = 64 << 20;

/// One end.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Two connected ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends one message.
    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_bytes(&serde_json::to_vec(message)?)
    }

    /// Sends one message and a descriptor with it.
    pub(crate) fn send_with(&self, message: &impl Serialize, fd: BorrowedFd<'_>) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let head = (body.len() as u32).to_le_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let sent = rustix::net::sendmsg(&self.0, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)?;
        self.send_all(&head[sent..])?;
        self.send_all(&body)
    }

    /// Sends one frame of raw bytes.
    pub(crate) fn send_bytes(&self, body: &[u8]) -> io::Result<()> {
        let head = (body.len() as u32).to_le_bytes();
        let frame = [&head[..], body].concat();
        self.send_all(&frame)
    }

    fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = match rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL) {
                // A seccomp filter that forbids one call may let the other pass.
                Err(errno) if errno != rustix::io::Errno::INTR && errno != rustix::io::Errno::PIPE => {
                    rustix::io::write(&self.0, bytes)
                }
                other => other,
            };
            match sent {
                Ok(sent) => bytes = &bytes[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Receives one message and the descriptor that came with it; `None` when the other end is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let Some((body, fd)) = self.receive_bytes()? else { return Ok(None) };
        Ok(Some((serde_json::from_slice(&body)?, fd)))
    }

    /// Receives one frame; `None` when the other end is gone.
    pub(crate) fn receive_bytes(&self) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
        let mut head = [0; 4];
        let (mut have, fd) = self.receive_head(&mut head)?;
        while have > 0 && have < head.len() {
            match self.read_some(&mut head[have..])? {
                0 => return Ok(None),
                n => have += n,
            }
        }
        if have == 0 {
            return Ok(None);
        }
        let length = u32::from_le_bytes(head) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too long"));
        }
        let mut body = vec![0; length];
        let mut have = 0;
        while have < length {
            match self.read_some(&mut body[have..])? {
                0 => return Ok(None),
                n => have += n,
            }
        }
        Ok(Some((body, fd)))
    }

    fn receive_head(&self, head: &mut [u8; 4]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let count = loop {
            let mut slices = [IoSliceMut::new(head)];
            match rustix::net::recvmsg(&self.0, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => break message.bytes,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => break 0,
                Err(errno) => return Err(errno.into()),
            }
        };
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.into_iter().next();
            }
        }
        Ok((count, fd))
    }

    fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(n) => return Ok(n),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(0),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (a, b) = Channel::pair().expect("pair");
        let (reader, writer) = rustix::pipe::pipe().expect("pipe");
        a.send(&"one").expect("send");
        a.send_with(&"two", writer.as_fd()).expect("send");
        drop(writer);
        drop(a);
        let (text, fd) = b.receive::<String>().expect("receive").expect("one");
        assert_eq!((text.as_str(), fd.is_some()), ("one", false));
        let (text, fd) = b.receive::<String>().expect("receive").expect("two");
        assert_eq!(text, "two");
        rustix::io::write(fd.expect("descriptor"), b"x").expect("write");
        let mut byte = [0; 1];
        assert_eq!(rustix::io::read(&reader, &mut byte).expect("read"), 1);
        assert!(b.receive::<String>().expect("receive").is_none());
    }
}
