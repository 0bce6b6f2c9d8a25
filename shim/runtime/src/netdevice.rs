//! `linux.netDevices`: network devices of the runtime's namespace that become the container's, all of them or none.
//!
//! The parent moves them: it may do so on both sides, also when the container's namespace belongs to its own user namespace.
//! Once a container is made they are the namespace's, and nobody fetches them back.

mod rtnetlink;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use berth_core::oci::{Linux, LinuxNamespaceType, LinuxNetDevice};

use self::rtnetlink::Socket;
use crate::config::{isolated, refuse};
use crate::error::Error;

/// The longest name of a device, without the NUL.
const NAME_MAX: usize = 15;
/// The kernel does not look further for the number in a name either.
const NUMBERS: u32 = 32_768;

/// Checks what can be known beforehand.
pub(crate) fn check(linux: &Linux) -> Result<(), Error> {
    let asked = linux.net_devices().as_ref().is_some_and(|devices| !devices.is_empty());
    if asked && !isolated(linux, LinuxNamespaceType::Network) {
        return Err(refuse("linux.netDevices", "takes a network namespace of the container's own"));
    }
    let mut taken: Vec<&str> = Vec::new();
    for (name, device) in linux.net_devices().iter().flatten() {
        let inside = name_inside(name, device);
        if !is_name(name) {
            return Err(refuse(place(name), "no network device has such a name"));
        }
        // One template for a number, which the kernel's own interface has too.
        if !is_name(&inside.replacen("%d", "0", 1)) {
            return Err(refuse(place(name), format!("no network device can be called {inside:?}")));
        }
        if !inside.contains('%') && taken.contains(&inside) {
            return Err(refuse(place(name), format!("another device is to be called {inside} too")));
        }
        taken.push(inside);
    }
    Ok(())
}

fn place(name: &str) -> String {
    format!("linux.netDevices[{name:?}]")
}

fn name_inside<'a>(name: &'a str, device: &'a LinuxNetDevice) -> &'a str {
    device.name().as_deref().filter(|name| !name.is_empty()).unwrap_or(name)
}

fn is_name(name: &str) -> bool {
    let fine = |b: u8| b > b' ' && b != 0x7f && !b"/:%".contains(&b);
    name.len() <= NAME_MAX && !["", ".", ".."].contains(&name) && name.bytes().all(fine)
}

/// A network namespace and a way to talk to it.
#[derive(Debug)]
struct Side {
    namespace: OwnedFd,
    socket: Socket,
}

/// A device to move, or moved.
#[derive(Debug)]
struct Device {
    name: String,
    inside: String,
    index: u32,
    up: bool,
    addresses: Vec<Vec<u8>>,
    arrived: bool,
    /// Whether the container had no device of the old name, so that one which is there now is this one.
    alone: bool,
}

/// Devices that were moved. They come back when this is dropped, unless they were left to the container before.
#[derive(Debug)]
pub(crate) struct Moved {
    host: Side,
    container: Side,
    devices: Vec<Device>,
}

/// Moves the devices of the configuration into the network namespace of a process.
#[inline(never)]
pub(crate) fn move_in(linux: &Linux, pid: i32) -> Result<Option<Moved>, Error> {
    let Some(wanted) = linux.net_devices().as_ref().filter(|wanted| !wanted.is_empty()) else {
        return Ok(None);
    };
    let mut moved = Moved::new(pid)
        .map_err(|e| refuse("linux.netDevices", format!("talk to the network namespace: {e}")))?;
    // Whatever can be seen to be impossible is, before anything is moved.
    let mut taken: Vec<String> =
        wanted.iter().map(|(name, device)| name_inside(name, device).into()).collect();
    let mut planned = Vec::new();
    let told = |name: &str| {
        let place = place(name);
        move |error: io::Error| refuse(place, error.to_string())
    };
    for (name, device) in wanted {
        let plan = moved.plan(name, name_inside(name, device), &mut taken);
        planned.push((name, plan.map_err(told(name))?));
    }
    for (name, device) in planned {
        moved.carry(device).map_err(told(name))?;
    }
    Ok(Some(moved))
}

impl Moved {
    fn new(pid: i32) -> io::Result<Self> {
        let open = |path: &str| std::fs::File::open(path).map(OwnedFd::from);
        let (own, theirs) = (open("/proc/thread-self/ns/net")?, open(&format!("/proc/{pid}/ns/net"))?);
        let container = Socket::inside(theirs.as_fd(), own.as_fd())?;
        let host = Side { socket: Socket::here()?, namespace: own };
        Ok(Self { host, container: Side { socket: container, namespace: theirs }, devices: Vec::new() })
    }

    fn plan(&self, name: &str, wanted: &str, taken: &mut Vec<String>) -> io::Result<Device> {
        let Some(link) = self.host.socket.link(name)?.filter(|link| link.own_name) else {
            let text = "there is no device of this name in the runtime's network namespace: `ip link` shows those that are";
            return Err(io::Error::other(text));
        };
        let inside = match wanted.contains('%') {
            true => self.number(wanted, taken)?,
            false => wanted.to_owned(),
        };
        if inside.is_empty() || self.container.socket.link(&inside)?.is_some() {
            let text = format!(
                "the container's network namespace has a device {wanted} already: give it another name"
            );
            return Err(io::Error::other(text));
        }
        let addresses = self.host.socket.addresses(link.index)?;
        let alone = self.container.socket.link(name)?.is_none();
        let (name, index, up) = (name.to_owned(), link.index, link.up);
        Ok(Device { name, inside, index, up, addresses, arrived: false, alone })
    }

    /// The first name of a template that is free; empty if none is.
    fn number(&self, template: &str, taken: &mut Vec<String>) -> io::Result<String> {
        for number in 0..NUMBERS {
            let name = template.replacen("%d", &number.to_string(), 1);
            if is_name(&name) && !taken.contains(&name) && self.container.socket.link(&name)?.is_none() {
                taken.push(name.clone());
                return Ok(name);
            }
        }
        Ok(String::new())
    }

    fn carry(&mut self, device: Device) -> io::Result<()> {
        // Noted first: the kernel may stop halfway.
        self.devices.push(device);
        let Some(device) = self.devices.last_mut() else { return Ok(()) };
        let sent =
            self.host.socket.send(device.index, self.container.namespace.as_fd(), &device.inside, true);
        device.arrived = sent.is_ok();
        let note = "some, as lo and bridges, are bound to the network namespace that they are in";
        sent.map_err(|error| io::Error::other(format!("move the device: {error}; {note}")))?;
        settle(&self.container, &device.inside, &device.addresses)
            .map_err(|error| io::Error::other(format!("give it its addresses again: {error}")))
    }

    /// They are the container's now, whatever becomes of it.
    pub(crate) fn leave(mut self) {
        self.devices.clear();
    }

    fn fetch(&self, device: &Device) -> io::Result<()> {
        if !device.arrived && self.host.socket.link(&device.name)?.is_some() {
            return Ok(());
        }
        // The kernel moves, then renames, then sets up: one that came in and no further has either name.
        let link = match self.container.socket.link(&device.inside)? {
            None if !device.arrived && device.alone => self.container.socket.link(&device.name)?,
            found => found,
        };
        let Some(link) = link else { return Err(rustix::io::Errno::NODEV.into()) };
        self.container.socket.send(link.index, self.host.namespace.as_fd(), &device.name, device.up)?;
        settle(&self.host, &device.name, &device.addresses)
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        for device in self.devices.iter().rev() {
            if let Err(error) = self.fetch(device) {
                // The error that led here is the one to return.
                eprintln!("network device {}: move it back: {error}", device.name);
            }
        }
    }
}

/// Gives a device that has come the addresses that it had.
fn settle(side: &Side, name: &str, addresses: &[Vec<u8>]) -> io::Result<()> {
    let Some(link) = side.socket.link(name)? else { return Err(rustix::io::Errno::NODEV.into()) };
    addresses.iter().try_for_each(|address| side.socket.add_address(link.index, address))
}
