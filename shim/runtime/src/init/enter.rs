//! Into the namespaces: joined ones, new ones, and the fork that a joined process id namespace takes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use berth_sys::namespace::{self, Namespaces};
use berth_sys::spawn::{Fork, fork_sibling};

use super::gone;
use crate::channel::Channel;
use crate::error::{At, Failure};
use crate::wire::{CreateOrder, Go, Report};

/// Joins the v1 cgroups.
///
/// Writing `0` to `tasks` moves the one thread that writes, for which the kernel takes no lock: moving a process by its id from
/// outside waits for an RCU period first, which takes 7 to 15 ms.
pub(super) fn join_cgroups(directories: &[std::path::PathBuf]) -> Result<(), Failure> {
    for directory in directories {
        let file = directory.join("tasks");
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
        let fd = rustix::fs::open(&file, flags, rustix::fs::Mode::empty()).at("join cgroup", directory)?;
        rustix::io::write(&fd, b"0").at("join cgroup", directory)?;
    }
    Ok(())
}

/// Enters every namespace of the order. Returns in the process that stays, with its id as the parent knows it when that is another
/// one than before.
pub(super) fn enter(channel: &Channel, order: &CreateOrder) -> Result<Option<i32>, Failure> {
    let mut joins = Vec::new();
    for (kind, fd) in &order.joins {
        let fd = berth_sys::inherited::take(*fd).step("take a namespace's descriptor")?;
        joins.push((kind_of(*kind), fd));
    }
    let user = joins.iter().position(|(kind, _)| *kind == Namespaces::USER).map(|i| joins.remove(i).1);
    // What the host owns can be joined before the user namespace only, what that owns only after it.
    let later = join_all(joins, user.is_some())?;
    if let Some(user) = user {
        namespace::join(user.as_fd(), Namespaces::USER).step("join the user namespace")?;
        become_root()?;
    }
    join_all(later, false)?;
    let mut make = kind_of(order.make);
    if make.contains(Namespaces::USER) {
        namespace::unshare(Namespaces::USER).step("make a user namespace")?;
        ask(channel, &Report::MapUsers)?;
        become_root()?;
        make = make.without(Namespaces::USER);
    }
    if order.fork { fork(channel, make).map(Some) } else { unshare(make).map(|()| None) }
}

fn unshare(make: Namespaces) -> Result<(), Failure> {
    if make.is_empty() { Ok(()) } else { namespace::unshare(make).step("make namespaces") }
}

/// Joins one after the other; with `forgive`, those that are refused are given back.
fn join_all(joins: Vec<(Namespaces, OwnedFd)>, forgive: bool) -> Result<Vec<(Namespaces, OwnedFd)>, Failure> {
    let mut refused = Vec::new();
    for (kind, fd) in joins {
        match namespace::join(fd.as_fd(), kind) {
            Ok(()) => {}
            Err(error) if forgive && error.raw_os_error() == Some(PERMISSION) => refused.push((kind, fd)),
            Err(error) => return Err(error).step(&format!("join the {} namespace", name_of(kind))),
        }
    }
    Ok(refused)
}

const PERMISSION: i32 = rustix::io::Errno::PERM.raw_os_error();

/// Goes on in a sibling, which is in the process id namespace that was joined or is new for it.
///
/// Gives its process id as the parent knows it.
pub(super) fn fork(channel: &Channel, make: Namespaces) -> Result<i32, Failure> {
    match fork_sibling(make).step("fork into the namespaces")? {
        Fork::Sibling => match channel.receive::<Go>().step("wait for the parent")? {
            Some((Go::Continue(pid), _)) => Ok(pid),
            _ => gone(),
        },
        Fork::Caller(pid, handle) => {
            // If this fails the parent is gone, and the sibling will see the same.
            let _ = channel.send_with(&Report::Sibling(pid), handle.as_fd());
            berth_sys::process::exit_now(0)
        }
    }
}

/// Reports something the parent has to deal with, and waits until it has.
pub(super) fn ask(channel: &Channel, report: &Report) -> Result<(), Failure> {
    channel.send(report).step("report to the parent")?;
    match channel.receive::<Go>().step("wait for the parent")? {
        Some(_) => Ok(()),
        None => gone(),
    }
}

/// Takes the ids that the user namespace calls root.
fn become_root() -> Result<(), Failure> {
    match berth_sys::process::set_ids(0, 0, Some(&[])) {
        Err(error) if error.raw_os_error() == Some(PERMISSION) => {
            berth_sys::process::set_ids(0, 0, None).step("become root of the user namespace")
        }
        other => other.step("become root of the user namespace"),
    }
}

/// A set of kinds from its bits.
pub(super) fn kind_of(bits: u64) -> Namespaces {
    let all = [
        Namespaces::MOUNT,
        Namespaces::CGROUP,
        Namespaces::UTS,
        Namespaces::IPC,
        Namespaces::USER,
        Namespaces::PID,
        Namespaces::NETWORK,
        Namespaces::TIME,
    ];
    all.into_iter().filter(|kind| bits & kind.bits() != 0).fold(Namespaces::empty(), |set, kind| set | kind)
}

fn name_of(kind: Namespaces) -> &'static str {
    match kind {
        Namespaces::MOUNT => "mount",
        Namespaces::CGROUP => "cgroup",
        Namespaces::UTS => "uts",
        Namespaces::IPC => "ipc",
        Namespaces::USER => "user",
        Namespaces::PID => "pid",
        Namespaces::NETWORK => "network",
        Namespaces::TIME => "time",
        _ => "named",
    }
}

/// Makes a time namespace with the offsets asked for and enters it.
pub(super) fn new_time(offsets: &[(String, i64, u32)]) -> Result<(), Failure> {
    namespace::unshare(Namespaces::TIME).step("make a time namespace")?;
    let text: String = offsets.iter().map(|(clock, s, ns)| format!("{clock} {s} {ns}\n")).collect();
    if !text.is_empty() {
        std::fs::write("/proc/self/timens_offsets", text)
            .at("set clock offsets", "/proc/self/timens_offsets")?;
    }
    let fd = std::fs::File::open("/proc/self/ns/time_for_children").step("open the time namespace")?;
    match namespace::join(fd.as_fd(), Namespaces::TIME) {
        Ok(()) => Ok(()),
        // The kernel may have entered it already, or does so at execve.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(error) => Err(error).step("join the time namespace"),
    }
}
