//! Owner, mode, extended attributes, times.

use super::ApplyError;
use super::entry::Place;
use crate::unpack::tar::Entry;
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown, fsetxattr,
    futimens, lsetxattr, utimensat,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// The kernel takes the highest id as "leave it", so that a layer must not ask for it.
pub(super) fn owner(entry: &Entry) -> Result<(u32, u32), ApplyError> {
    let id = |value: i64| u32::try_from(value).ok().filter(|id| *id != u32::MAX);
    match (id(entry.uid), id(entry.gid)) {
        (Some(uid), Some(gid)) => Ok((uid, gid)),
        _ => Err(ApplyError::entry(&entry.name, "owner or group out of range")),
    }
}

/// Attributes of an open file or directory. Owner first: changing it clears set-id bits and capabilities.
/// Returns how many extended attributes were left out.
pub(super) fn to_file(fd: BorrowedFd<'_>, entry: &Entry, path: &[u8]) -> Result<u64, ApplyError> {
    let (uid, gid) = owner(entry)?;
    fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
        .map_err(ApplyError::kernel("set owner", path))?;
    fchmod(fd, Mode::from_raw_mode(entry.mode)).map_err(ApplyError::kernel("set mode", path))?;
    xattrs(entry, path, |name, value| fsetxattr(fd, name, value, XattrFlags::empty()))
}

/// Attributes of a symlink, device or pipe, by name: such are not opened. It was made a moment ago in a directory
/// that nobody else writes.
pub(super) fn to_name(place: &Place<'_>, entry: &Entry, with_mode: bool) -> Result<u64, ApplyError> {
    let (uid, gid) = owner(entry)?;
    let (dir, name, path) = (place.node.fd.as_fd(), place.name, &place.path);
    chownat(dir, name, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(ApplyError::kernel("set owner", path))?;
    if with_mode {
        chmodat(dir, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())
            .map_err(ApplyError::kernel("set mode", path))?;
    }
    let dropped = xattrs(entry, path, |key, value| {
        // There is no such call by handle and name. A worker is confined to the tree, and its other threads name no
        // files; in tests several apply at the same time.
        static INSIDE: Mutex<()> = Mutex::new(());
        let _alone = INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::process::fchdir(dir)?;
        lsetxattr(name, key, value, XattrFlags::empty())
    })?;
    utimensat(dir, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(ApplyError::kernel("set times", path))?;
    Ok(dropped)
}

/// Both times of a file.
pub(super) fn times_of_file(file: impl AsFd, entry: &Entry) -> Result<(), Errno> {
    futimens(file, &times(entry.mtime))
}

fn times((seconds, nanos): (i64, u32)) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Attributes a layer may bring. Overlay's own and those of security modules are not the image's to set.
fn allowed(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name == b"security.capability"
        || matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default")
}

fn xattrs(
    entry: &Entry,
    path: &[u8],
    set: impl Fn(&[u8], &[u8]) -> Result<(), Errno>,
) -> Result<u64, ApplyError> {
    let mut dropped = 0;
    for (name, value) in &entry.xattrs {
        if !allowed(name) || name.contains(&0) {
            dropped += 1;
            continue;
        }
        match set(name, value) {
            Ok(()) => {}
            // The file system or the type of file has none such.
            Err(Errno::OPNOTSUPP) => dropped += 1,
            Err(Errno::PERM) if name.starts_with(b"user.") => dropped += 1,
            Err(errno @ (Errno::NOSPC | Errno::RANGE | Errno::TOOBIG)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                let why = format!(
                    "attribute {name} of {} bytes does not fit on this file system: {errno}",
                    value.len()
                );
                return Err(ApplyError::entry(path, why));
            }
            Err(errno) => return Err(ApplyError::kernel("set extended attribute", path)(errno)),
        }
    }
    Ok(dropped)
}
