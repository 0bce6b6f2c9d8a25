//! Bind mounts: a detached copy of the source, changed, attached inside the root.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use berth_core::oci::Mount;
use berth_sys::mount::{Change, Propagation, attr, clone_tree_at, set_attributes};
use berth_sys::path::Kind;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::error::{At, Failure};
use crate::options::{IdMap, Options};

/// The source of a bind mount; relative ones start at the bundle.
pub(super) fn source_of(mount: &Mount, bundle: &Path) -> PathBuf {
    let source = mount.source().clone().unwrap_or_default();
    if source.is_absolute() { source } else { bundle.join(source) }
}

/// A detached copy of the source.
pub(super) fn detach(source: &Path, options: &Options) -> Result<OwnedFd, Failure> {
    clone_tree_at(source, options.bind == Some(true)).at("bind", source)
}

/// What the target has to be for `tree` to be attached over it.
pub(super) fn kind_of(tree: &OwnedFd) -> Result<Kind, Failure> {
    let mode = rustix::fs::fstat(tree).step("look at a bind mount's source")?.st_mode;
    Ok(if FileType::from_raw_mode(mode) == FileType::Directory { Kind::Directory } else { Kind::File })
}

/// Changes a detached mount as the options say, what they do not name staying as it is, and attaches it.
///
/// Before Linux 5.12 only an attached mount can be changed, so there the order is the other way round; nothing of the container
/// runs yet that could make use of it.
pub(super) fn finish(
    tree: &OwnedFd,
    target: &OwnedFd,
    mount: &Mount,
    options: &Options,
) -> Result<(), Failure> {
    let place = mount.destination();
    match change_all(tree, options, |tree, change, recursive| set_attributes(tree, change, recursive)) {
        Err(error) if unknown(&error) => {
            berth_sys::mount::attach(tree, target).at("mount", place)?;
            change_all(tree, options, old_change).at("set mount options of", place)
        }
        other => {
            other.at("set mount options of", place)?;
            berth_sys::mount::attach(tree, target).at("mount", place)
        }
    }
}

/// How a change reaches the kernel.
type Apply = fn(&OwnedFd, &Change<'_>, bool) -> io::Result<()>;

fn change_all(tree: &OwnedFd, options: &Options, apply: Apply) -> io::Result<()> {
    if options.recursive_set | options.recursive_clear != 0 {
        let change =
            Change { set: options.recursive_set, clear: options.recursive_clear, ..Change::default() };
        apply(tree, &change, true)?;
    }
    if options.set | options.clear != 0 {
        apply(tree, &Change { set: options.set, clear: options.clear, ..Change::default() }, false)?;
    }
    for (propagation, recursive) in &options.propagation {
        apply(tree, &Change { propagation: Some(*propagation), ..Change::default() }, *recursive)?;
    }
    Ok(())
}

/// Maps the owners of a detached mount through a user namespace.
pub(super) fn map_owners(
    tree: &OwnedFd,
    subject: &Path,
    mode: IdMap,
    namespace: &OwnedFd,
) -> Result<(), Failure> {
    mappable().at("map the owners of", subject)?;
    let change = Change { set: attr::IDMAP, user_namespace: Some(namespace.as_fd()), ..Change::default() };
    set_attributes(tree, &change, mode == IdMap::Recursive)
        .at("map the owners of", subject)
        .map_err(|f| f.note("the file system of the source may not support id-mapped mounts"))
}

/// Whether owners can be mapped: there is no other way than by the newer calls.
pub(super) fn mappable() -> io::Result<()> {
    let setattr = berth_sys::lacks(berth_sys::Call::MountSetattr).then_some("mount_setattr");
    match berth_sys::mount::missing_call().or(setattr) {
        None => Ok(()),
        Some(call) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "id-mapped mounts take {call}, which this kernel, or a seccomp filter around the runtime, does not allow"
            ),
        )),
    }
}

fn unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOSYS.raw_os_error())
}

/// Makes an attached mount read-only, with all below it where the kernel can.
pub(super) fn read_only(tree: &OwnedFd, recursive: bool) -> io::Result<()> {
    let change = Change { set: attr::RDONLY, ..Change::default() };
    match set_attributes(tree, &change, recursive) {
        Err(error) if unknown(&error) => old_change(tree, &change, false),
        other => other,
    }
}

/// Sets the propagation of an attached mount.
pub(super) fn propagate(tree: &OwnedFd, propagation: Propagation, recursive: bool) -> io::Result<()> {
    let change = Change { propagation: Some(propagation), ..Change::default() };
    match set_attributes(tree, &change, recursive) {
        Err(error) if unknown(&error) => old_change(tree, &change, recursive),
        other => other,
    }
}

/// A change of an attached mount by mount(2), for kernels before 5.12. Below the top it reaches with propagation only.
fn old_change(tree: &OwnedFd, change: &Change<'_>, recursive: bool) -> io::Result<()> {
    match change.propagation {
        Some(propagation) => old_propagation(tree, propagation, recursive),
        None if recursive => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "recursive mount options take Linux 5.12 (mount_setattr)",
        )),
        None => old_attributes(tree, change.set, change.clear),
    }
}

/// A remount that keeps the flags it finds, but for those to be changed.
fn old_attributes(tree: &OwnedFd, set: u64, clear: u64) -> io::Result<()> {
    /// As mount_setattr numbers them, as statvfs shows them, and as mount(2) takes them.
    const BITS: [(u64, u64, u32); 6] = [
        (attr::RDONLY, 0x1, 0x1),
        (attr::NOSUID, 0x2, 0x2),
        (attr::NODEV, 0x4, 0x4),
        (attr::NOEXEC, 0x8, 0x8),
        (attr::NODIRATIME, 0x800, 0x800),
        (attr::NOSYMFOLLOW, 0x2000, 0x100),
    ];
    let place = format!("/proc/self/fd/{}", tree.as_raw_fd());
    let present = rustix::fs::fstatvfs(tree)?.f_flag.bits();
    let stays = |bit: u64, shown: u64| set & bit != 0 || (present & shown != 0 && clear & bit == 0);
    let bits =
        BITS.iter().filter(|(bit, shown, _)| stays(*bit, *shown)).fold(0, |all, (.., flag)| all | flag);
    // One of three, and what is not said the kernel would take for the usual.
    let times = match (clear & attr::ATIME != 0, set & attr::ATIME, present & 0x1400) {
        (true, attr::NOATIME, _) | (false, _, 0x400) => MountFlags::NOATIME,
        (true, attr::STRICTATIME, _) | (false, _, 0) => MountFlags::STRICTATIME,
        _ => MountFlags::RELATIME,
    };
    let flags = MountFlags::from_bits_retain(bits) | times | MountFlags::BIND;
    Ok(rustix::mount::mount_remount(&place, flags, "")?)
}

fn old_propagation(tree: &OwnedFd, propagation: Propagation, recursive: bool) -> io::Result<()> {
    let place = format!("/proc/self/fd/{}", tree.as_raw_fd());
    let mut flags = rustix::mount::MountPropagationFlags::from_bits_retain(propagation.bits() as u32);
    if recursive {
        flags |= rustix::mount::MountPropagationFlags::REC;
    }
    Ok(rustix::mount::mount_change(&place, flags)?)
}
