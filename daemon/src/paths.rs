//! The daemon's directories: where they are, that they exist, who may enter.

use berth_config::Config;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where things are.
#[derive(Debug, Clone)]
pub struct Paths {
    /// What survives a reboot, 0700.
    pub root: PathBuf,
    /// What does not, 0711: the kubelet and crictl pass through to the socket.
    pub state: PathBuf,
    /// The gRPC socket, 0660.
    pub socket: PathBuf,
    /// Shim sockets, 0700.
    pub sockets: PathBuf,
    /// One directory per pod, 0711: user namespaces must reach the files bound into containers.
    pub pods: PathBuf,
    /// What shims write on stderr.
    pub shim_log: PathBuf,
}

/// A directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// It cannot be made or changed.
    #[error("{path}: {source}")]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else could change what is in it.
    #[error("{path} belongs to uid {uid}, not to this daemon: remove it or give another --root and --state")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Somebody else's things are in it, and it would have to be closed to them.
    #[error(
        "{path} holds things that are not this daemon's (such as {name:?}): give a directory of its own as --root and --state"
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// What is in it.
        name: String,
    },
    /// It is a file or a link.
    #[error(
        "{path} is not a directory (links are not followed): remove it or give another --root and --state"
    )]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
}

impl Paths {
    /// Names them; touches nothing.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let state = config.state.clone();
        Self {
            root: config.root.clone(),
            socket: config.socket(),
            sockets: state.join("s"),
            pods: state.join("p"),
            shim_log: state.join("shim.log"),
            state,
        }
    }

    /// Makes them, with their modes whatever the umask is and whatever was there before.
    ///
    /// # Errors
    /// A directory that cannot be made, or that another user owns.
    pub fn prepare(&self) -> Result<(), PathsError> {
        not_shared(&self.root, 0o700, &["lock", berth_store::FILE])?;
        directory(&self.root, 0o700)?;
        not_shared(&self.state, 0o711, &["lock", "s"])?;
        directory(&self.state, 0o711)?;
        directory(&self.sockets, 0o700)?;
        directory(&self.pods, 0o711)?;
        match self.socket.parent() {
            Some(parent) if !parent.exists() => directory(parent, 0o711),
            _ => Ok(()),
        }
    }
}

/// Refuses to change the mode of a directory that is in use and bears none of this daemon's `marks`.
fn not_shared(path: &Path, mode: u32, marks: &[&str]) -> Result<(), PathsError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_dir() || found.mode() & 0o7777 == mode || marks.iter().any(|mark| path.join(mark).exists()) {
        return Ok(());
    }
    let entries = std::fs::read_dir(path);
    let entries = entries.map_err(|source| PathsError::Make { path: path.to_owned(), source })?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    // The top of a file system of its own.
    match names.filter(|name| name != "lost+found").min() {
        Some(name) => Err(PathsError::NotOurs { path: path.to_owned(), name }),
        None => Ok(()),
    }
}

/// Makes `path` (and what is missing above it, open to all for passing) with exactly `mode`.
fn directory(path: &Path, mode: u32) -> Result<(), PathsError> {
    let failed = |source| PathsError::Make { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let found = std::fs::symlink_metadata(path).map_err(failed)?;
    if !found.is_dir() {
        return Err(PathsError::NotDirectory { path: path.to_owned() });
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(PathsError::Foreign { path: path.to_owned(), uid: found.uid() });
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(matches!(directory(&link, 0o700), Err(PathsError::NotDirectory { .. })));
        assert!(matches!(directory(&file, 0o700), Err(PathsError::NotDirectory { .. })));
        assert_eq!(std::fs::metadata("/etc").unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_directory_of_somebody_else_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let config = Config { root: path.clone(), state: dir.path().join("run"), ..Config::default() };
        let paths = Paths::new(&config);
        std::fs::write(path.join("precious"), "").unwrap();
        let refused = paths.prepare().unwrap_err();
        assert!(matches!(&refused, PathsError::NotOurs { name, .. } if name == "precious"), "{refused}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
        // Empty but for what a file system brings along, or marked by an earlier daemon: it may be taken.
        std::fs::rename(path.join("precious"), path.join("lost+found")).unwrap();
        paths.prepare().unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        std::fs::write(path.join("precious"), "").unwrap();
        std::fs::write(path.join("lock"), "").unwrap();
        paths.prepare().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_loose_mode_is_tightened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        directory(&path, 0o700).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
    }
}
