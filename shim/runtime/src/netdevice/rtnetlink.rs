//! The few words of rtnetlink that moving a network device takes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use berth_sys::namespace::{self, Namespaces};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const LIST: u16 = 0x300;
const REPLACE_OR_CREATE: u16 = 0x500;
const INTERRUPTED: u16 = 0x10;

const ERROR: u16 = 2;
const DONE: u16 = 3;

const IFLA_IFNAME: u16 = 3;
const IFLA_NET_NS_FD: u16 = 28;
const IFA_FLAGS: u16 = 8;
/// What of an address is taken along: address, local side, broadcast, lifetimes, flags, metric. A label begins with a device's
/// name, which may be another there.
const IFA_KEPT: [u16; 6] = [1, 2, 4, 6, IFA_FLAGS, 9];

const IFA_F_PERMANENT: u32 = 0x80;
const SCOPE_UNIVERSE: u8 = 0;
const IFF_UP: u32 = 1;

/// Sizes of the fixed parts: nlmsghdr, ifinfomsg, ifaddrmsg.
const HEADER: usize = 16;
const LINK: usize = 16;
const ADDRESS: usize = 8;

/// The largest datagram that the kernel builds for a list.
const BUFFER: usize = 64 * 1024;
/// How often a list is asked for while something changes all the time.
const ATTEMPTS: usize = 10;

/// A device as it was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) up: bool,
    /// Whether the name that it was asked for by is its own, not an alternative one.
    pub(super) own_name: bool,
}

/// A conversation with one network namespace, which lives as long as this does.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// With the namespace of this thread.
    pub(super) fn here() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Self(rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?))
    }

    /// With another one: this thread goes there and comes back to its `own`, or nothing of this process goes on.
    pub(super) fn inside(namespace: BorrowedFd<'_>, own: BorrowedFd<'_>) -> io::Result<Self> {
        namespace::join(namespace, Namespaces::NETWORK)?;
        let socket = Self::here();
        if namespace::join(own, Namespaces::NETWORK).is_err() {
            std::process::abort();
        }
        socket
    }

    /// The device of a name, if there is one. Alternative names count too.
    pub(super) fn link(&self, name: &str) -> io::Result<Option<Link>> {
        let mut body = vec![0; LINK];
        let text = [name.as_bytes(), &[0]].concat();
        attribute(&mut body, IFLA_IFNAME, &text);
        match self.ask(GET_LINK, ACK, &body) {
            Ok(found) => Ok(found.first().and_then(|about| {
                let own_name = attributes(about.get(LINK..)?).any(|one| one == (IFLA_IFNAME, &*text));
                Some(Link { index: number(about, 4)?, up: number(about, 8)? & IFF_UP != 0, own_name })
            })),
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a device of this namespace into another, where it gets a name and is set up or down, all in one request.
    pub(super) fn send(&self, index: u32, to: BorrowedFd<'_>, name: &str, up: bool) -> io::Result<()> {
        let mut body = vec![0; LINK];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..12].copy_from_slice(&(if up { IFF_UP } else { 0 }).to_ne_bytes());
        body[12..16].copy_from_slice(&IFF_UP.to_ne_bytes());
        attribute(&mut body, IFLA_NET_NS_FD, &to.as_raw_fd().to_ne_bytes());
        attribute(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        self.ask(SET_LINK, ACK, &body).map(drop)
    }

    /// The permanent addresses of global scope that a device has, for [`Socket::add_address`].
    pub(super) fn addresses(&self, index: u32) -> io::Result<Vec<Vec<u8>>> {
        let all = self.ask(GET_ADDRESS, LIST, &[0; ADDRESS])?;
        Ok(all.iter().filter_map(|about| permanent(about, index)).collect())
    }

    /// Gives a device an address.
    pub(super) fn add_address(&self, index: u32, address: &[u8]) -> io::Result<()> {
        let mut body = address.to_vec();
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        self.ask(NEW_ADDRESS, ACK | REPLACE_OR_CREATE, &body).map(drop)
    }

    /// Asks, and gives the bodies of what came back.
    fn ask(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut request = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        request.extend([kind.to_ne_bytes(), (REQUEST | flags).to_ne_bytes()].concat());
        request.resize(HEADER, 0);
        request.extend(body);
        for _ in 0..ATTEMPTS {
            rustix::net::send(&self.0, &request, SendFlags::empty())?;
            if let Some(answer) = self.answer()? {
                return Ok(answer);
            }
        }
        Err(Errno::INTR.into())
    }

    /// The answer to one request; none if what was listed changed meanwhile.
    fn answer(&self) -> io::Result<Option<Vec<Vec<u8>>>> {
        let (mut found, mut whole) = (Vec::new(), true);
        let mut buffer = vec![0; BUFFER];
        loop {
            let (length, _) = rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty())
            })?;
            let mut rest = &buffer[..length];
            while let Some((size, body)) = number(rest, 0).and_then(|size| {
                let size = size as usize;
                Some((size, rest.get(HEADER..size)?))
            }) {
                whole &= half(rest, 6).unwrap_or(0) & INTERRUPTED == 0;
                match half(rest, 4) {
                    Some(ERROR | DONE) => match number(body, 0).unwrap_or(0) as i32 {
                        errno @ ..0 => return Err(io::Error::from_raw_os_error(-errno)),
                        _ => return Ok(whole.then_some(found)),
                    },
                    _ => found.push(body.to_vec()),
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// What of a listed address is to be said again, if it is one to take along.
fn permanent(about: &[u8], index: u32) -> Option<Vec<u8>> {
    let head = about.get(..ADDRESS)?;
    let listed = || attributes(&about[ADDRESS..]);
    let long = listed().find(|(kind, _)| *kind == IFA_FLAGS).and_then(|(_, value)| number(value, 0));
    let flags = long.unwrap_or_else(|| head[2].into());
    if number(head, 4)? != index || head[3] != SCOPE_UNIVERSE || flags & IFA_F_PERMANENT == 0 {
        return None;
    }
    let mut body = head.to_vec();
    listed()
        .filter(|(kind, _)| IFA_KEPT.contains(kind))
        .for_each(|(kind, value)| attribute(&mut body, kind, value));
    Some(body)
}

/// Adds an attribute; none here comes near the 64 KiB that one can have.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend([((value.len() + 4) as u16).to_ne_bytes(), kind.to_ne_bytes()].concat());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes in a piece of a message; what is malformed ends the list.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(half(rest, 0)?), half(rest, 2)?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(index: u32, scope: u8, short: u8, long: Option<u32>) -> Vec<u8> {
        let mut about = vec![2, 24, short, scope];
        about.extend(index.to_ne_bytes());
        attribute(&mut about, 1, &[10, 0, 0, 1]);
        attribute(&mut about, 3, b"eth0\0");
        if let Some(long) = long {
            attribute(&mut about, IFA_FLAGS, &long.to_ne_bytes());
        }
        about
    }

    #[test]
    fn permanent_addresses_of_global_scope_are_taken_along() {
        let kept = permanent(&listed(7, 0, 0x80, None), 7).expect("kept");
        let kinds: Vec<u16> = attributes(&kept[ADDRESS..]).map(|(kind, _)| kind).collect();
        assert_eq!((&kept[..4], kinds), (&[2, 24, 0x80, 0][..], vec![1]));
        assert!(permanent(&listed(7, 0, 0, Some(0x280)), 7).is_some());
        for (other, what) in [
            (listed(8, 0, 0x80, None), "another device's"),
            (listed(7, 253, 0x80, None), "of the link"),
            (listed(7, 0, 0x80, Some(0x200)), "with a lifetime"),
            (vec![2, 24], "cut off"),
        ] {
            assert_eq!(permanent(&other, 7), None, "{what}");
        }
    }

    #[test]
    fn garbage_ends_the_walk() {
        for bytes in [&[][..], &[1], &[0; 40], &[255; 40], &[3, 0, 1, 0]] {
            assert_eq!(attributes(bytes).take(100).count(), 0, "{bytes:?}");
        }
    }

    #[test]
    fn the_loopback_is_found_and_nothing_is_not() {
        let socket = Socket::here().expect("socket");
        let link = socket.link("lo").expect("asked").expect("there");
        assert_eq!(link.index, 1);
        assert!(socket.link("berth-is-no-nic").expect("asked").is_none());
        // 127.0.0.1 is of the machine, not global.
        assert!(socket.addresses(link.index).expect("listed").is_empty());
    }
}
