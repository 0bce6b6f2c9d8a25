//! Bind mounts: a detached copy of the source, changed, attached inside the root.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use berth_sys::mount::{Change, attr, clone_tree_at, set_attributes};
use berth_sys::path::Kind;
use oci_spec::runtime::Mount;
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

/// Changes attributes, owners and propagation of a detached or attached mount as the options say. What they do not name stays.
pub(super) fn apply(tree: &OwnedFd, mount: &Mount, options: &Options) -> Result<(), Failure> {
    let place = mount.destination();
    if options.recursive_set | options.recursive_clear != 0 {
        change(tree, options.recursive_set, options.recursive_clear, true)
            .at("set recursive mount options of", place)?;
    }
    if options.set | options.clear != 0 {
        change(tree, options.set, options.clear, false).at("set mount options of", place)?;
    }
    for (propagation, recursive) in &options.propagation {
        let change = Change { propagation: Some(*propagation), ..Change::default() };
        match set_attributes(tree, &change, *recursive) {
            Err(error) if unknown(&error) => old_propagation(tree, *propagation, *recursive),
            other => other,
        }
        .at("set mount propagation of", place)?;
    }
    Ok(())
}

/// Maps the owners of a detached mount through a user namespace.
pub(super) fn map_owners(
    tree: &OwnedFd,
    mount: &Mount,
    mode: IdMap,
    namespace: &OwnedFd,
) -> Result<(), Failure> {
    let change = Change { set: attr::IDMAP, user_namespace: Some(namespace.as_fd()), ..Change::default() };
    set_attributes(tree, &change, mode == IdMap::Recursive)
        .at("map the owners of", mount.destination())
        .map_err(|f| f.note("the file system of the source may not support id-mapped mounts"))
}

fn unknown(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOSYS.raw_os_error())
}

/// mount_setattr, or before Linux 5.12 a remount that keeps the flags it finds. The old call cannot reach below the top.
fn change(tree: &OwnedFd, set: u64, clear: u64, recursive: bool) -> std::io::Result<()> {
    let order = Change { set, clear, ..Change::default() };
    match set_attributes(tree, &order, recursive) {
        Err(error) if unknown(&error) && !recursive => old_attributes(tree, set, clear),
        other => other,
    }
}

fn old_attributes(tree: &OwnedFd, set: u64, clear: u64) -> std::io::Result<()> {
    let place = format!("/proc/self/fd/{}", tree.as_raw_fd());
    let present = rustix::fs::fstatvfs(tree)?.f_flag.bits();
    // statvfs and mount(2) share the numbers of these flags; mount_setattr's differ for access times only.
    let mut flags = present & 0x1c0f;
    for (bit, flag) in [
        (attr::RDONLY, 0x1),
        (attr::NOSUID, 0x2),
        (attr::NODEV, 0x4),
        (attr::NOEXEC, 0x8),
        (attr::NOATIME, 0x400),
        (attr::NODIRATIME, 0x800),
    ] {
        if clear & bit != 0 {
            flags &= !flag;
        }
        if set & bit != 0 {
            flags |= flag;
        }
    }
    let flags = MountFlags::from_bits_retain(flags as u32) | MountFlags::BIND;
    Ok(rustix::mount::mount_remount(&place, flags, "")?)
}

fn old_propagation(
    tree: &OwnedFd,
    propagation: berth_sys::mount::Propagation,
    recursive: bool,
) -> std::io::Result<()> {
    let place = format!("/proc/self/fd/{}", tree.as_raw_fd());
    let mut flags = rustix::mount::MountPropagationFlags::from_bits_retain(propagation.bits() as u32);
    if recursive {
        flags |= rustix::mount::MountPropagationFlags::REC;
    }
    Ok(rustix::mount::mount_change(&place, flags)?)
}

/// Makes a mount read-only on kernels without mount_setattr.
pub(super) fn read_only_without_setattr(tree: &OwnedFd) -> std::io::Result<()> {
    old_attributes(tree, attr::RDONLY, 0)
}
