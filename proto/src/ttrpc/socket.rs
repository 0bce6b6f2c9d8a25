//! Path sockets whose paths may be longer than the 108 bytes of sun_path.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Longest path that fits sun_path with its final zero.
const SUN_PATH_MAX: usize = 107;

/// Connects to the socket at `path`.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (short, _directory) = shorten(path)?;
    UnixStream::connect(short).await
}

/// Connects and blocks meanwhile; for asking whether anybody listens.
pub fn connect_now(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    let (short, _directory) = shorten(path)?;
    std::os::unix::net::UnixStream::connect(short)
}

/// Listens at `path`, which must not exist. Must be called within a tokio runtime.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let (short, _directory) = shorten(path)?;
    UnixListener::bind(short)
}

/// A name for the same file that fits, valid while the returned directory is open.
fn shorten(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().as_bytes().len() <= SUN_PATH_MAX {
        return Ok((path.to_owned(), None));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a socket's path needs a directory and a name",
        ));
    };
    let directory = File::open(parent)?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((short, Some(directory)))
}
