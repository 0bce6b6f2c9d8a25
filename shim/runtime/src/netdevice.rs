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
use crate::error::{At, Error};

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
    let fine = |c: char| !c.is_whitespace() && !c.is_control() && !"/:%".contains(c);
    (1..=NAME_MAX).contains(&name.len()) && name != "." && name != ".." && name.chars().all(fine)
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
}

/// Devices that were moved. They come back when this is dropped, unless they were left to the container before.
#[derive(Debug)]
pub(crate) struct Moved {
    host: Side,
    container: Side,
    devices: Vec<Device>,
}

/// Moves the devices of the configuration into the network namespace of a process.
pub(crate) fn move_in(linux: &Linux, pid: i32) -> Result<Option<Moved>, Error> {
    let Some(wanted) = linux.net_devices().as_ref().filter(|wanted| !wanted.is_empty()) else {
        return Ok(None);
    };
    let open = |path: &str| -> Result<OwnedFd, Error> {
        Ok(std::fs::File::open(path).at("open network namespace", path)?.into())
    };
    let (own, theirs) = (open("/proc/thread-self/ns/net")?, open(&format!("/proc/{pid}/ns/net"))?);
    let step = "talk to the network namespace";
    let host = Side { socket: Socket::here().step(step)?, namespace: own };
    let container = Side { socket: Socket::inside(theirs.as_fd()).step(step)?, namespace: theirs };
    let mut moved = Moved { host, container, devices: Vec::new() };
    // Whatever can be seen to be impossible is, before anything is moved.
    let mut taken: Vec<String> =
        wanted.iter().map(|(name, device)| name_inside(name, device).into()).collect();
    let mut planned = Vec::new();
    for (name, device) in wanted {
        planned.push(moved.plan(name, name_inside(name, device), &mut taken)?);
    }
    planned.into_iter().try_for_each(|device| moved.carry(device))?;
    Ok(Some(moved))
}

impl Moved {
    fn plan(&self, name: &str, wanted: &str, taken: &mut Vec<String>) -> Result<Device, Error> {
        let step = "look at network device";
        let Some(link) = self.host.socket.link(name).at(step, name)? else {
            let reason = "there is no such device in the runtime's network namespace: `ip link` shows those that can be named";
            return Err(refuse(place(name), reason));
        };
        if !link.own_name {
            return Err(refuse(
                place(name),
                "is another name of a device: give the one that `ip link` shows first",
            ));
        }
        let inside = match wanted.contains('%') {
            true => self.number(wanted, taken).at(step, name)?,
            false => Some(wanted.to_owned()),
        };
        let is_taken = |inside: &String| self.container.socket.link(inside).map(|link| link.is_some());
        let Some(inside) = inside.filter(|inside| !matches!(is_taken(inside), Ok(true))) else {
            let reason = format!(
                "the container's network namespace has a device {wanted} already: give it another name"
            );
            return Err(refuse(place(name), reason));
        };
        let addresses = self.host.socket.addresses(link.index).at(step, name)?;
        Ok(Device { name: name.into(), inside, index: link.index, up: link.up, addresses, arrived: false })
    }

    /// The first name of a template that is free.
    fn number(&self, template: &str, taken: &mut Vec<String>) -> io::Result<Option<String>> {
        for number in 0..NUMBERS {
            let name = template.replacen("%d", &number.to_string(), 1);
            if !taken.contains(&name) && self.container.socket.link(&name)?.is_none() {
                taken.push(name.clone());
                return Ok(Some(name).filter(|name| is_name(name)));
            }
        }
        Ok(None)
    }

    fn carry(&mut self, device: Device) -> Result<(), Error> {
        // Noted first: the kernel may stop halfway.
        self.devices.push(device);
        let Some(device) = self.devices.last_mut() else { return Ok(()) };
        let sent =
            self.host.socket.send(device.index, self.container.namespace.as_fd(), &device.inside, true);
        device.arrived = sent.is_ok();
        let note = "some devices, as lo and bridges, are bound to the network namespace that they are in";
        sent.at("move network device", &device.name)
            .map_err(|failure| failure.note(format!("{}: {note}", place(&device.name))))?;
        Ok(settle(&self.container, &device.inside, &device.addresses)
            .at("set the addresses of network device", &device.inside)
            .map_err(|failure| failure.note(place(&device.name)))?)
    }

    /// They are the container's now, whatever becomes of it.
    pub(crate) fn leave(mut self) {
        self.devices.clear();
    }

    fn fetch(&self, device: &Device) -> io::Result<()> {
        if !device.arrived && self.host.socket.link(&device.name)?.is_some() {
            return Ok(());
        }
        // One that came in and could not be renamed is there under its old name.
        let inside = if device.arrived { &device.inside } else { &device.name };
        let Some(link) = self.container.socket.link(inside)? else { return Ok(()) };
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
