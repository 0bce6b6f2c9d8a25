//! A terminal from the container's own devpts, reached by descriptor only: no name in the container can redirect it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_sys::path::{Kind, make_in_root, open_in_root};
use rustix::fs::{FileType, OFlags, makedev};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::error::{At, Failure};

/// The two ends of a terminal.
pub(super) struct Terminal {
    pub(super) master: OwnedFd,
    pub(super) slave: OwnedFd,
}

/// Makes a terminal of `size` (rows, columns).
pub(super) fn open(root: &OwnedFd, size: Option<(u16, u16)>) -> Result<Terminal, Failure> {
    let path = Path::new("/dev/pts/ptmx");
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let master = open_in_root(root, path, flags).at("open terminal", path)?;
    let stat = rustix::fs::fstat(&master).at("look at", path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice || stat.st_rdev != makedev(5, 2) {
        return Err(Failure::refused("open terminal", Some(path), "this is not the terminal multiplexer"));
    }
    rustix::pty::unlockpt(&master).step("unlock terminal")?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).step("open the terminal's other end")?;
    if let Some((rows, columns)) = size {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).step("set the terminal's size")?;
    }
    Ok(Terminal { master, slave })
}

/// Shows the terminal as /dev/console.
pub(super) fn show(root: &OwnedFd, terminal: &Terminal) -> Result<(), Failure> {
    let path = Path::new("/dev/console");
    let (target, _) = make_in_root(root, path, Kind::File).at("make mount target", path)?;
    let tree = berth_sys::mount::clone_tree(&terminal.slave, false).at("bind terminal", path)?;
    berth_sys::mount::attach(&tree, &target).at("mount", path)
}

/// Makes the terminal the three standard streams and the session's controlling terminal.
pub(super) fn adopt(slave: &OwnedFd) -> Result<(), Failure> {
    rustix::process::ioctl_tiocsctty(slave.as_fd()).step("take the controlling terminal")?;
    rustix::stdio::dup2_stdin(slave).step("place the terminal")?;
    rustix::stdio::dup2_stdout(slave).step("place the terminal")?;
    rustix::stdio::dup2_stderr(slave).step("place the terminal")
}
