//! Device nodes: the ones every container has, the ones asked for, and the links of /dev.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use berth_core::oci::{LinuxDevice, LinuxDeviceType};
use berth_sys::path::{Kind, make_in_root};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, makedev};
use rustix::io::Errno;

use crate::error::{At, Failure};

/// A device to make.
struct Node {
    path: PathBuf,
    kind: FileType,
    number: u64,
    mode: u32,
    uid: u32,
    gid: u32,
}

/// The devices that the specification gives to every container.
const DEFAULTS: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
    ("/dev/tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// Makes all of them; `bind` where this process may not make devices.
pub(super) fn make(root: &OwnedFd, asked: &[LinuxDevice], bind: bool) -> Result<(), Failure> {
    for node in nodes(asked)? {
        let directory = node.path.parent().unwrap_or(Path::new("/"));
        let (directory, _) =
            make_in_root(root, directory, Kind::Directory).at("make directory", directory)?;
        let name = node.path.file_name().map(Path::new).unwrap_or(Path::new(""));
        if bind {
            bind_one(&directory, name, &node)?;
        } else {
            make_one(&directory, name, &node)?;
        }
    }
    links(root)
}

/// The defaults that are not asked for in another way, then those asked for.
fn nodes(asked: &[LinuxDevice]) -> Result<Vec<Node>, Failure> {
    let defaults = DEFAULTS.iter().filter(|(path, ..)| !asked.iter().any(|d| d.path() == Path::new(path)));
    let mut nodes: Vec<Node> = defaults
        .map(|(path, major, minor)| Node {
            path: PathBuf::from(path),
            kind: FileType::CharacterDevice,
            number: makedev(*major, *minor),
            mode: 0o666,
            uid: 0,
            gid: 0,
        })
        .collect();
    for device in asked {
        let kind = match device.typ() {
            LinuxDeviceType::B => FileType::BlockDevice,
            LinuxDeviceType::C | LinuxDeviceType::U => FileType::CharacterDevice,
            LinuxDeviceType::P => FileType::Fifo,
            LinuxDeviceType::A => {
                return Err(Failure::refused("make device", Some(device.path()), "type a is for rules only"));
            }
        };
        nodes.push(Node {
            path: device.path().clone(),
            kind,
            number: if kind == FileType::Fifo {
                0
            } else {
                makedev(device.major() as u32, device.minor() as u32)
            },
            mode: device.file_mode().unwrap_or(0o666) & 0o7777,
            uid: device.uid().unwrap_or(0),
            gid: device.gid().unwrap_or(0),
        });
    }
    Ok(nodes)
}

fn make_one(directory: &OwnedFd, name: &Path, node: &Node) -> Result<(), Failure> {
    let mode = Mode::from_raw_mode(node.mode);
    match rustix::fs::mknodat(directory, name, node.kind, mode, node.number) {
        Ok(()) => {}
        Err(Errno::EXIST) => return same(directory, name, node),
        Err(Errno::PERM) => return bind_one(directory, name, node),
        Err(errno) => return Err(errno).at("make device", &node.path),
    }
    if (node.uid, node.gid) != (0, 0) { give_away(directory, name, node) } else { Ok(()) }
}

/// Sets owner and mode of a device just made, by descriptor: in a directory that another container writes to as well, the name may
/// by now be a link to a file of the host's.
fn give_away(directory: &OwnedFd, name: &Path, node: &Node) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(directory, name, flags, Mode::empty()).at("look at device", &node.path)?;
    let stat = rustix::fs::fstat(&made).at("look at device", &node.path)?;
    if FileType::from_raw_mode(stat.st_mode) != node.kind || stat.st_rdev != node.number {
        return Err(Failure::refused("make device", Some(&node.path), "somebody else put something there"));
    }
    let (uid, gid) = (Uid::from_raw(node.uid), Gid::from_raw(node.gid));
    rustix::fs::chownat(&made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
        .at("set the owner of device", &node.path)?;
    // The host's /proc, which is still here; its links to descriptors follow no name.
    let link = format!("/proc/self/fd/{}", made.as_raw_fd());
    rustix::fs::chmod(link, Mode::from_raw_mode(node.mode)).at("set the mode of device", &node.path)
}

/// Something is there already: fine if it is that device.
fn same(directory: &OwnedFd, name: &Path, node: &Node) -> Result<(), Failure> {
    let stat =
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).at("look at device", &node.path)?;
    if FileType::from_raw_mode(stat.st_mode) == node.kind && stat.st_rdev == node.number {
        return Ok(());
    }
    Err(Failure::refused("make device", Some(&node.path), "something else is there in the image"))
}

/// Binds the host's device of the same name.
fn bind_one(directory: &OwnedFd, name: &Path, node: &Node) -> Result<(), Failure> {
    let tree = berth_sys::mount::clone_tree_at(&node.path, false).at("bind device", &node.path)?;
    let stat = rustix::fs::fstat(&tree).at("look at device", &node.path)?;
    if FileType::from_raw_mode(stat.st_mode) != node.kind || stat.st_rdev != node.number {
        return Err(Failure::refused(
            "bind device",
            Some(&node.path),
            "the host has another device of that name",
        ));
    }
    let (target, _) = make_in_root(directory, name, Kind::File).at("bind device", &node.path)?;
    berth_sys::mount::attach(&tree, &target).at("bind device", &node.path)
}

/// The links of /dev. /dev/ptmx leads to the container's own terminals.
fn links(root: &OwnedFd) -> Result<(), Failure> {
    let (dev, _) = make_in_root(root, Path::new("/dev"), Kind::Directory).at("make directory", "/dev")?;
    for (name, text) in LINKS {
        if name == "core" && !Path::new(text).exists() {
            continue;
        }
        match rustix::fs::symlinkat(text, &dev, name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).at("make link", Path::new("/dev").join(name)),
        }
    }
    match rustix::fs::unlinkat(&dev, "ptmx", AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno).at("remove", "/dev/ptmx"),
    }
    rustix::fs::symlinkat("pts/ptmx", &dev, "ptmx").at("make link", "/dev/ptmx")
}
