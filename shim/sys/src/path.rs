//! Opening and making paths inside a directory that stays the root whatever the symbolic links in it say.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};

use crate::missing::{Call, lacks};

mod walk;

use walk::{Links, Walk};

/// Opens `path` with `root` as the root directory: `..` and absolute links end there; magic links are refused.
///
/// # Errors
/// Those of openat2. EAGAIN (a rename raced with `..`) is tried again a few times.
pub fn open_in_root(root: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    resolve(root.as_fd(), path, flags, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS, Links::Follow)
}

/// Opens `path` with `root` as the root directory, where no symbolic link may be on the way or at its end.
///
/// # Errors
/// ELOOP for a link; those of [`open_in_root`].
pub fn open_without_links(root: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    resolve(root.as_fd(), path, flags, ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS, Links::Refuse)
}

/// Opens `path` below `dir` on the same mount, with `links` or without any.
///
/// # Errors
/// EXDEV for another mount, ELOOP for a link; those of openat2.
pub fn open_beneath(dir: impl AsFd, path: &Path, flags: OFlags, links: bool) -> io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    match links {
        true => resolve(dir.as_fd(), path, flags, beneath, Links::Beneath),
        false => resolve(dir.as_fd(), path, flags, beneath | ResolveFlags::NO_SYMLINKS, Links::None),
    }
}

/// By openat2 or, where that is missing, name by name.
fn resolve(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    how: ResolveFlags,
    links: Links,
) -> io::Result<OwnedFd> {
    if lacks(Call::OpenAt2) {
        return Walk::new(root, path)?.open(flags, links);
    }
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..64 {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

/// What [`make_in_root`] makes at the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory, mode 0755.
    Directory,
    /// An empty file, mode 0644 (a target for a mount of anything that is no directory).
    File,
}

/// Opens `path` inside `root` (`O_PATH`), making what is missing, also where a dangling symbolic link points. The second value
/// says whether the last component was made.
///
/// # Errors
/// ELOOP after 40 links, ENOTDIR, EROFS and the like with the failing call's errno.
pub fn make_in_root(root: impl AsFd, path: &Path, kind: Kind) -> io::Result<(OwnedFd, bool)> {
    match open_in_root(&root, path, OFlags::PATH) {
        Ok(fd) => return Ok((fd, false)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
        Err(error) => return Err(error),
    }
    Walk::new(root.as_fd(), path)?.run(kind)
}

/// Reopens an `O_PATH` descriptor for use. Needs a /proc that shows the calling process.
///
/// # Errors
/// Those of open.
pub fn reopen(proc: impl AsFd, fd: impl AsFd, flags: OFlags) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let name = format!("self/fd/{}", fd.as_fd().as_raw_fd());
    Ok(rustix::fs::openat(proc, name, flags | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether something other than a symbolic link is at `name` in `dir`.
pub fn exists_at(dir: impl AsFd, name: &Path) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn root() -> (std::path::PathBuf, OwnedFd) {
        let dir = std::env::temp_dir().join(format!(
            "berth-path-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("mkdir");
        let fd = rustix::fs::open(&dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("open");
        (dir, fd)
    }

    #[test]
    fn makes_targets_where_links_point() {
        let (dir, fd) = root();
        std::fs::create_dir_all(dir.join("opt")).expect("mkdir");
        std::fs::create_dir_all(dir.join("etc")).expect("mkdir");
        std::fs::create_dir_all(dir.join("var")).expect("mkdir");
        symlink("/run", dir.join("var/run")).expect("link");
        symlink("v9", dir.join("opt/logs")).expect("link");
        symlink("/srv/none", dir.join("opt/v9")).expect("link");
        symlink("../../../../usr/share/none", dir.join("etc/localtime")).expect("link");
        make_in_root(&fd, Path::new("/var/run/secrets/x"), Kind::Directory).expect("var/run");
        make_in_root(&fd, Path::new("/opt/logs"), Kind::Directory).expect("opt/logs");
        let (_, made) = make_in_root(&fd, Path::new("/etc/localtime"), Kind::File).expect("localtime");
        assert!(made);
        assert!(dir.join("run/secrets/x").is_dir());
        assert!(dir.join("srv/none").is_dir());
        assert!(dir.join("usr/share/none").is_file());
        std::fs::remove_dir_all(&dir).expect("clean");
    }

    #[test]
    fn loops_end() {
        let (dir, fd) = root();
        symlink("b", dir.join("a")).expect("link");
        symlink("a", dir.join("b")).expect("link");
        let error = make_in_root(&fd, Path::new("/a/x"), Kind::Directory).expect_err("loop");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        std::fs::remove_dir_all(&dir).expect("clean");
    }

    #[test]
    fn dots_stay_inside() {
        let (dir, fd) = root();
        make_in_root(&fd, Path::new("/../../x/../../y"), Kind::Directory).expect("make");
        assert!(dir.join("y").is_dir());
        std::fs::remove_dir_all(&dir).expect("clean");
    }
}
