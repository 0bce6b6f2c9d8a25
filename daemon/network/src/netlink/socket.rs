//! A blocking netlink socket in the namespace of the thread that opens it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::NetlinkError;
use super::message::{Message, Reply, replies};

const ERROR: u16 = 2;
const DONE: u16 = 3;
const DUMP_INTERRUPTED: u16 = 0x10;
/// How often a list is asked for on a node where something changes all the time.
const ATTEMPTS: u32 = 10;
/// The largest datagram the kernel builds for a dump.
const BUFFER: usize = 64 * 1024;
/// The kernel answers at once; this only bounds a kernel that does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// One conversation with the kernel.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
}

/// How the kernel took one message of a batch: its sequence number and errno (0 for well).
pub(crate) type Ack = (u32, i32);

impl Socket {
    /// Opens a socket of a netlink family.
    pub(crate) fn open(protocol: Option<Protocol>) -> Result<Self, NetlinkError> {
        let fd =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
                .map_err(|e| NetlinkError::Socket { source: e.into() })?;
        let set = sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(PATIENCE));
        set.map_err(|e| NetlinkError::Socket { source: e.into() })?;
        Ok(Self { fd })
    }

    /// Sends one message that asks for an acknowledgement and waits for it.
    pub(crate) fn ack(&self, what: &str, message: Message) -> Result<(), NetlinkError> {
        self.send(&message.finish(1))?;
        self.collect(what, 1).map(drop)
    }

    /// Sends one message and gives the answers up to the end of the dump or the acknowledgement. A list during which
    /// something changed may lack entries, so it is asked for again.
    pub(crate) fn ask(&self, what: &str, message: Message) -> Result<Vec<Reply>, NetlinkError> {
        let mut sequence = 1;
        loop {
            self.send(&message.clone().finish(sequence))?;
            let found = self.collect(what, sequence)?;
            let torn = found.iter().any(|reply| reply.flags & DUMP_INTERRUPTED != 0);
            if !torn || sequence >= ATTEMPTS {
                return Ok(found);
            }
            sequence += 1;
        }
    }

    /// Sends a datagram as it is.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), NetlinkError> {
        let sent = rustix::net::send(&self.fd, bytes, SendFlags::empty());
        sent.map(drop).map_err(|e| NetlinkError::Socket { source: e.into() })
    }

    /// Receives one datagram, cut into messages.
    pub(crate) fn receive(&self) -> Result<Vec<Reply>, NetlinkError> {
        let mut buffer = vec![0u8; BUFFER];
        loop {
            match rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::empty()) {
                Ok((n, _)) => return Ok(replies(&buffer[..n])),
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(NetlinkError::Socket { source: e.into() }),
            }
        }
    }

    fn collect(&self, what: &str, sequence: u32) -> Result<Vec<Reply>, NetlinkError> {
        let mut found = Vec::new();
        loop {
            for reply in self.receive()? {
                if reply.sequence != sequence {
                    continue;
                }
                match reply.kind {
                    // The end of a list may be the only part that says it was interrupted.
                    DONE => {
                        found.extend((reply.flags & DUMP_INTERRUPTED != 0).then_some(reply));
                        return Ok(found);
                    }
                    ERROR => return refused(what, &reply).map(|()| found),
                    _ => found.push(reply),
                }
            }
        }
    }
}

/// The acknowledgement in a message, if it is one.
pub(crate) fn ack_of(reply: &Reply) -> Option<Ack> {
    (reply.kind == ERROR).then(|| (reply.sequence, errno(reply)))
}

fn errno(reply: &Reply) -> i32 {
    let code = reply.body.get(..4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes);
    code.checked_neg().unwrap_or(0)
}

fn refused(what: &str, reply: &Reply) -> Result<(), NetlinkError> {
    match errno(reply) {
        0 => Ok(()),
        code => {
            Err(NetlinkError::Refused { what: what.to_owned(), source: io::Error::from_raw_os_error(code) })
        }
    }
}
