//! `tmpcopyup`: what the image has in a directory, copied into the tmpfs that will cover it.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use crate::error::{At, Failure};

/// Directories nested deeper than this are refused: the copy recurses.
const MAX_DEPTH: usize = 128;

/// Copies everything below `from` into `to`, keeping owners, modes and links. Devices, sockets and pipes are made again.
pub(super) fn copy(from: &OwnedFd, to: &OwnedFd) -> Result<(), Failure> {
    directory(from, to, 0)
}

fn directory(from: &OwnedFd, to: &OwnedFd, depth: usize) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::refused("copy up", None, "directories are nested too deeply"));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(from, ".", flags, Mode::empty()).step("copy up")?;
    let mut dir = Dir::new(readable).step("copy up")?;
    while let Some(entry) = dir.read() {
        let entry = entry.step("copy up")?;
        let name = entry.file_name();
        if name.to_bytes() != b"." && name.to_bytes() != b".." {
            one(from, to, name, depth)?;
        }
    }
    Ok(())
}

fn one(from: &OwnedFd, to: &OwnedFd, name: &CStr, depth: usize) -> Result<(), Failure> {
    let subject = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()));
    let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW).at("copy up", subject)?;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let nofollow = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            rustix::fs::mkdirat(to, name, mode).at("copy up", subject)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | nofollow;
            let source = rustix::fs::openat(from, name, flags, Mode::empty()).at("copy up", subject)?;
            let target = rustix::fs::openat(to, name, flags, Mode::empty()).at("copy up", subject)?;
            directory(&source, &target, depth + 1)?;
        }
        FileType::RegularFile => {
            // Should it be a pipe by now, nobody waits for its other end.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | nofollow;
            let source = rustix::fs::openat(from, name, flags, Mode::empty()).at("copy up", subject)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | nofollow;
            let target = rustix::fs::openat(to, name, flags, mode).at("copy up", subject)?;
            std::io::copy(&mut std::fs::File::from(source), &mut std::fs::File::from(target))
                .at("copy up", subject)?;
        }
        FileType::Symlink => {
            let text = rustix::fs::readlinkat(from, name, Vec::new()).at("copy up", subject)?;
            rustix::fs::symlinkat(text, to, name).at("copy up", subject)?;
        }
        kind => rustix::fs::mknodat(to, name, kind, mode, stat.st_rdev).at("copy up", subject)?,
    }
    rustix::fs::chownat(
        to,
        name,
        Some(Uid::from_raw(stat.st_uid)),
        Some(Gid::from_raw(stat.st_gid)),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .at("copy up", subject)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        // After chown, which clears set-uid; the umask does not apply either.
        rustix::fs::chmodat(to, name, mode, AtFlags::empty()).at("copy up", subject)?;
    }
    Ok(())
}
