//! The shared memory of a pod: one small tmpfs for all its containers.

use crate::pod::Error;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::Path;

const OPTIONS: &std::ffi::CStr = c"mode=1777,size=65536k";

/// Mounts it. Blocking.
///
/// # Errors
/// Names the path.
pub(super) fn make(path: &Path) -> Result<(), Error> {
    let failed = |cause: String| Error::internal(format!("mount shared memory at {}", path.display()), cause);
    std::fs::create_dir_all(path).map_err(|error| failed(error.to_string()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("shm", path, "tmpfs", flags, OPTIONS).map_err(|errno| failed(errno.to_string()))
}

/// Unmounts it; where nothing is mounted, nothing is done. Blocking.
///
/// # Errors
/// Names the path.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    loop {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => {
                return Err(Error::internal(format!("unmount shared memory at {}", path.display()), errno));
            }
        }
    }
}
