//! Copying a file of any type from one layer to another, with all that belongs to it.

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat,
    chownat, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, futimens, mknodat, openat, readlinkat,
    seek, statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Data copied in one go.
const PIECE: u64 = 64 << 20;

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A system call failed.
    #[error("{act}")]
    Kernel {
        /// What was being done.
        act: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
    /// Reading or writing failed.
    #[error("copy the data")]
    Data(#[source] std::io::Error),
    /// More data than may be copied.
    #[error("hard links to lower layers would copy more than is allowed for one layer")]
    TooMuch,
    /// Nobody waits for it any more.
    #[error("given up")]
    GivenUp,
}

/// What may still be copied, and whether anybody wants it.
#[derive(Debug, Clone, Copy)]
pub struct Allowance<'a> {
    /// Bytes.
    pub bytes: u64,
    /// Set when nobody does.
    pub given_up: &'a AtomicBool,
}

fn kernel(act: &'static str) -> impl FnOnce(Errno) -> CopyError {
    move |source| CopyError::Kernel { act, source }
}

/// Owner, mode, times, extended attributes.
#[derive(Debug)]
pub struct Meta {
    stat: Stat,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Meta {
    /// Of an open file or directory. Overlay's own attributes are left out.
    ///
    /// # Errors
    /// Failed calls.
    pub fn of_file(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let stat = fstat(fd)?;
        let mut names = vec![0u8; 65536];
        let length = match flistxattr(fd, &mut names) {
            Ok(length) => length,
            Err(Errno::OPNOTSUPP) => 0,
            Err(errno) => return Err(errno),
        };
        let mut xattrs = Vec::new();
        for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
            if name.starts_with(b"trusted.overlay.") || name == b"security.selinux" {
                continue;
            }
            let mut value = vec![0u8; 65536];
            let length = fgetxattr(fd, name, &mut value)?;
            value.truncate(length);
            xattrs.push((name.to_vec(), value));
        }
        Ok(Self { stat, xattrs })
    }

    /// Sets all of it on an open file or directory: owner first, times last.
    ///
    /// # Errors
    /// Failed calls.
    pub fn set_file(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        fchown(fd, Some(Uid::from_raw(self.stat.st_uid)), Some(Gid::from_raw(self.stat.st_gid)))?;
        fchmod(fd, Mode::from_raw_mode(self.stat.st_mode & 0o7777))?;
        for (name, value) in &self.xattrs {
            match fsetxattr(fd, name.as_slice(), value, XattrFlags::empty()) {
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        futimens(fd, &times(&self.stat))
    }
}

fn times(stat: &Stat) -> Timestamps {
    let time = |sec: i64, nsec: u64| Timespec { tv_sec: sec, tv_nsec: i64::try_from(nsec).unwrap_or(0) };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Copies the entry `name` of `from` to `to_name` in `to`, where nothing stands. Holes stay holes. Says how many bytes
/// of data were copied.
///
/// # Errors
/// Failed calls, or more data than `allowance` has.
pub fn up(
    from: BorrowedFd<'_>,
    name: &[u8],
    to: BorrowedFd<'_>,
    to_name: &[u8],
    allowance: Allowance<'_>,
) -> Result<u64, CopyError> {
    let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(kernel("look at the file"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return regular(from, name, to, to_name, allowance),
        FileType::Symlink => {
            let target = readlinkat(from, name, Vec::new()).map_err(kernel("read the link"))?;
            symlinkat(&target, to, to_name).map_err(kernel("make the link"))?;
            by_name(&stat, to, to_name, false)?;
        }
        kind => {
            mknodat(to, to_name, kind, Mode::from_raw_mode(stat.st_mode & 0o7777), stat.st_rdev)
                .map_err(kernel("make the device or pipe"))?;
            by_name(&stat, to, to_name, true)?;
        }
    }
    Ok(0)
}

fn by_name(stat: &Stat, to: BorrowedFd<'_>, name: &[u8], mode: bool) -> Result<(), CopyError> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(kernel("set owner"))?;
    if mode {
        chmodat(to, name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())
            .map_err(kernel("set mode"))?;
    }
    utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW).map_err(kernel("set times"))
}

fn regular(
    from: BorrowedFd<'_>,
    name: &[u8],
    to: BorrowedFd<'_>,
    to_name: &[u8],
    allowance: Allowance<'_>,
) -> Result<u64, CopyError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = File::from(openat(from, name, flags, Mode::empty()).map_err(kernel("open the file"))?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target =
        File::from(openat(to, to_name, flags, Mode::RUSR | Mode::WUSR).map_err(kernel("make the file"))?);
    let meta = Meta::of_file(source.as_fd()).map_err(kernel("read attributes"))?;
    let copied = data(&source, &target, u64::try_from(meta.stat.st_size).unwrap_or(0), allowance)?;
    meta.set_file(target.as_fd()).map_err(kernel("set attributes"))?;
    Ok(copied)
}

/// The data of a file, piece by piece, without its holes: a file of a terabyte may hold none.
fn data(mut source: &File, mut target: &File, size: u64, allowance: Allowance<'_>) -> Result<u64, CopyError> {
    target.set_len(size).map_err(CopyError::Data)?;
    let (mut at, mut copied) = (0, 0);
    while at < size {
        let start = match seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(kernel("look for data")(errno)),
        };
        let hole = seek(source, SeekFrom::Hole(start)).map_err(kernel("look for a hole"))?;
        let end = hole.min(start.saturating_add(PIECE)).min(size);
        copied += end.saturating_sub(start);
        if copied > allowance.bytes {
            return Err(CopyError::TooMuch);
        }
        if allowance.given_up.load(Ordering::Relaxed) {
            return Err(CopyError::GivenUp);
        }
        for file in [source, target] {
            seek(file, SeekFrom::Start(start)).map_err(kernel("go to the data"))?;
        }
        let length = end.saturating_sub(start);
        let got = std::io::copy(&mut (&mut source).take(length), &mut target).map_err(CopyError::Data)?;
        if got < length {
            break;
        }
        at = end;
    }
    Ok(copied)
}
