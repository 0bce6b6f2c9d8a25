//! A network namespace that lives by its pin, a file in a directory such as `/run/netns`, and needs no process.
//!
//! A namespace is made by a thread of its own that unshares, binds its namespace over the pin, brings loopback
//! up and ends: no fork, and no other thread ever sees the new namespace as its own.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use berth_sys::namespace::{Namespaces, unshare};
use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::faults;
use crate::netlink::NetlinkError;
use crate::netlink::route::Route;

/// File system magic of namespace files.
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// A pin could not be made, opened or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// A step with a path failed.
    #[error("cannot {act} network namespace {}: {source}", path.display())]
    Step {
        /// What was tried.
        act: &'static str,
        /// The pin.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The path holds a namespace already.
    #[error("network namespace {} is there already; remove it first", path.display())]
    Exists {
        /// The pin.
        path: PathBuf,
    },
    /// The file is no namespace: its pin went away, as at a restart of the node.
    #[error("{} is a plain file and pins no network namespace any more", path.display())]
    NotPinned {
        /// The pin.
        path: PathBuf,
    },
    /// Loopback did not come up.
    #[error("cannot bring loopback up in {}: {source}", path.display())]
    Loopback {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: NetlinkError,
    },
}

/// A pinned network namespace, open.
#[derive(Debug)]
pub struct Netns {
    path: PathBuf,
    fd: OwnedFd,
}

impl Netns {
    /// Where in `dir` the namespace of a sandbox is pinned: `berth-` and the first 32 digits of its id, which are random, so
    /// that nobody else has it, and whoever looks finds the pod. Save it before [`Netns::create`].
    pub fn path_of(dir: &Path, sandbox: &str) -> PathBuf {
        dir.join(format!("berth-{}", sandbox.get(..32).unwrap_or(sandbox)))
    }

    /// Makes a namespace with loopback up and pins it at `path`. A left-over plain file there is taken over;
    /// on failure nothing is left behind.
    pub fn create(path: &Path) -> Result<Self, NetnsError> {
        if Self::is_pinned(path) {
            return Err(NetnsError::Exists { path: path.to_owned() });
        }
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(|e| step("make the directory of", path, e))?;
        }
        File::create(path).map_err(|e| step("make the pin of", path, e))?;
        let made = thread::scope(|scope| {
            let maker = thread::Builder::new().name("netns".into()).spawn_scoped(scope, || make(path));
            match maker.map_err(|e| step("start a thread for", path, e))?.join() {
                Ok(made) => made,
                Err(_) => Err(step("make", path, io::Error::other("the thread that makes it panicked"))),
            }
        });
        let opened = made.and_then(|()| Self::open(path));
        if opened.is_err() {
            // The first failure is the one to tell; a failing removal shows again at the next attempt.
            let _ = Self::remove(path);
        }
        opened
    }

    /// Opens a pinned namespace.
    pub fn open(path: &Path) -> Result<Self, NetnsError> {
        let file = File::open(path).map_err(|e| step("open", path, e))?;
        let magic = fstatfs(&file).map_err(|e| step("look at", path, e.into()))?.f_type;
        if magic != NSFS_MAGIC {
            return Err(NetnsError::NotPinned { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), fd: file.into() })
    }

    /// Whether `path` pins a namespace now.
    pub fn is_pinned(path: &Path) -> bool {
        Self::open(path).is_ok()
    }

    /// Removes a pin, mounted or not; success when there is none. The namespace dies with its last process.
    pub fn remove(path: &Path) -> Result<(), NetnsError> {
        loop {
            match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                // Pins can lie upon each other after a crash between two creations.
                Ok(()) => continue,
                Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => break,
                Err(e) => return Err(step("unpin", path, e.into())),
            }
        }
        match fs::remove_file(path) {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
            Err(e) => Err(step("remove the pin of", path, e)),
        }
    }

    /// The pin.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on a thread inside the namespace and gives its answer.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        thread::scope(|scope| {
            let inside = thread::Builder::new().name("in-netns".into()).spawn_scoped(scope, || {
                move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok::<T, Errno>(work())
            });
            match inside.map_err(|e| step("start a thread in", &self.path, e))?.join() {
                Ok(done) => done.map_err(|e| step("enter", &self.path, e.into())),
                Err(_) => Err(step("work in", &self.path, io::Error::other("the thread panicked"))),
            }
        })
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs on a thread of its own, which ends afterwards.
fn make(path: &Path) -> Result<(), NetnsError> {
    unshare(Namespaces::NETWORK).map_err(|e| step("make", path, e))?;
    mount_bind("/proc/thread-self/ns/net", path).map_err(|e| step("pin", path, e.into()))?;
    faults::NETNS_PINNED.pass().map_err(|e| step("make", path, io::Error::other(e)))?;
    let up = Route::open().and_then(|route| route.loopback_up());
    up.map_err(|source| NetnsError::Loopback { path: path.to_owned(), source })
}

fn step(act: &'static str, path: &Path, source: io::Error) -> NetnsError {
    NetnsError::Step { act, path: path.to_owned(), source }
}
