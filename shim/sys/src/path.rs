//! Opening and making paths inside a directory that stays the root whatever the symbolic links in it say.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};

/// Links followed before a path is refused; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// Opens `path` with `root` as the root directory: `..` and absolute links end there; magic links are refused.
///
/// # Errors
/// Those of openat2. EAGAIN (a rename raced with `..`) is tried again a few times.
pub fn open_in_root(root: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..64 {
        match rustix::fs::openat2(&root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
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
    let mut walk =
        Walk { dirs: vec![root.as_fd().try_clone_to_owned()?], pending: VecDeque::new(), links: 0 };
    walk.push_front(path);
    walk.run(kind)
}

/// A walk that holds every directory from the root to where it stands, so that `..` never asks the file system.
struct Walk {
    dirs: Vec<OwnedFd>,
    pending: VecDeque<OsString>,
    links: usize,
}

impl Walk {
    fn push_front(&mut self, path: &Path) {
        let parts: Vec<OsString> = path
            .components()
            .filter_map(|c| match c {
                Component::Normal(name) => Some(name.to_owned()),
                Component::ParentDir => Some(OsString::from("..")),
                _ => None,
            })
            .collect();
        for part in parts.into_iter().rev() {
            self.pending.push_front(part);
        }
    }

    fn run(mut self, kind: Kind) -> io::Result<(OwnedFd, bool)> {
        let mut made = false;
        while let Some(name) = self.pending.pop_front() {
            if name == ".." {
                if self.dirs.len() > 1 {
                    self.dirs.pop();
                }
                continue;
            }
            let wanted = if self.pending.is_empty() { kind } else { Kind::Directory };
            let (fd, fresh) = self.step(&name, wanted)?;
            made = fresh;
            if let Some(fd) = fd {
                self.dirs.push(fd);
            }
        }
        // The root is always there, so the list is never empty.
        self.dirs.pop().map(|fd| (fd, made)).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// One component: opened, made, or (None) replaced by the text of the link it is.
    fn step(&mut self, name: &OsStr, wanted: Kind) -> io::Result<(Option<OwnedFd>, bool)> {
        let dir = self.dirs.last().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (fd, fresh) = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(fd) => (fd, false),
            Err(rustix::io::Errno::NOENT) => {
                make(dir, name, wanted)?;
                (rustix::fs::openat(dir, name, flags, Mode::empty())?, true)
            }
            Err(errno) => return Err(errno.into()),
        };
        if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::Symlink {
            return Ok((Some(fd), fresh));
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let text = rustix::fs::readlinkat(&fd, c"", Vec::new())?;
        let text = Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text.as_bytes()));
        if text.is_absolute() {
            self.dirs.truncate(1);
        }
        self.push_front(text);
        Ok((None, false))
    }
}

/// Makes one entry; somebody else making it first is fine.
fn make(dir: &OwnedFd, name: &OsStr, kind: Kind) -> io::Result<()> {
    let outcome = match kind {
        Kind::Directory => rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)),
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        }
    };
    match outcome {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
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
