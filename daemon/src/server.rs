//! The gRPC server on its unix socket.

use crate::app::App;
use crate::cri::Cri;
use crate::cri::route::Services;
use anyhow::{Context, bail};
use rustix::fs::{Gid, Mode};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

/// Calls that one client may have in flight; more wait in the client.
const STREAMS: u32 = 512;

/// The listening socket. Its file is removed when this is dropped, if it is still this one's.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    inode: u64,
    listener: Option<UnixListener>,
}

impl Socket {
    /// Listens at `path`, mode 0660 and group `gid` from the first moment on. A socket that nobody listens on any
    /// more is replaced.
    ///
    /// # Errors
    /// Somebody listens there, the path is something else, or it cannot be made.
    pub fn bind(path: &Path, gid: u32) -> anyhow::Result<Self> {
        refuse_taken(path)?;
        // Made under another name, so that no client meets it before its mode is right.
        let draft = path.with_extension("new");
        let _ = std::fs::remove_file(&draft);
        let listener =
            UnixListener::bind(&draft).with_context(|| format!("listen at {}", draft.display()))?;
        let settle = || -> std::io::Result<u64> {
            rustix::fs::chown(&draft, None, Some(Gid::from_raw(gid)))?;
            rustix::fs::chmod(&draft, Mode::from_raw_mode(0o660))?;
            std::fs::rename(&draft, path)?;
            Ok(std::fs::symlink_metadata(path)?.ino())
        };
        let inode = settle().with_context(|| format!("make the socket {}", path.display()))?;
        Ok(Self { path: path.to_owned(), inode, listener: Some(listener) })
    }
}

fn refuse_taken(path: &Path) -> anyhow::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("look at {}", path.display())),
    };
    if !found.file_type().is_socket() {
        bail!("{} exists and is no socket: remove it or give another --socket", path.display());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => bail!("another process listens at {}: stop it or give another --socket", path.display()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            tracing::info!(socket = %path.display(), "replacing a stale socket");
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("try the old socket {}", path.display())),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Serves until `end`, then lets calls in flight take at most `drain`.
///
/// # Errors
/// The server failed to run.
pub async fn serve(
    app: Arc<App>,
    mut socket: Socket,
    end: impl Future<Output = ()> + Send + 'static,
    drain: Duration,
) -> anyhow::Result<()> {
    let listener = socket.listener.take().context("the socket is served already")?;
    let services = Services::new(Cri::new(app));
    let (told, ending) = oneshot::channel();
    let end = async move {
        end.await;
        let _ = told.send(());
    };
    let server = Server::builder().max_concurrent_streams(STREAMS).serve_with_incoming_shutdown(
        services,
        UnixListenerStream::new(listener),
        end,
    );
    let overdue = async {
        let _ = ending.await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        served = server => served.context("serve gRPC"),
        () = overdue => {
            tracing::warn!(seconds = drain.as_secs(), "calls in flight did not end in time and are dropped");
            Ok(())
        }
    }
}

/// Whether somebody answers at `path`: for tests and tools.
pub async fn answers(path: &Path) -> bool {
    UnixStream::connect(path).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = Socket::bind(&path, 0).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o660);
        assert!(answers(&path).await);
        let error = Socket::bind(&path, 0).unwrap_err().to_string();
        assert!(error.contains("another process listens"), "{error}");
        drop(first);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn another_kind_of_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(Socket::bind(&path, 0).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_socket_that_has_been_replaced_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.sock");
        let first = Socket::bind(&path, 0).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _second = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // An inode number may be used again at once; then the two cannot be told apart here.
        let same = std::fs::metadata(&path).unwrap().ino() == first.inode;
        drop(first);
        assert!(path.exists() || same);
    }
}
