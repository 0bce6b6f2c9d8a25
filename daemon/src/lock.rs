//! One daemon for one root, one state directory and one bridge.

use crate::paths::Paths;
use berth_config::{Network, NetworkMode};
use berth_store::{Lock, LockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the locks of bridges are: they must be the same for daemons with different directories.
const BRIDGES: &str = "/run/lock/berth";

/// All locks, held until dropped.
#[derive(Debug)]
pub struct Locks {
    _root: Lock,
    _state: Lock,
    _bridge: Option<Lock>,
}

impl Locks {
    /// Takes them all.
    ///
    /// # Errors
    /// Another daemon has one of them: its pid is named.
    pub fn take(paths: &Paths, network: &Network) -> Result<Self, LockError> {
        Ok(Self {
            _root: Lock::take(&paths.root.join("lock"))?,
            _state: Lock::take(&paths.state.join("lock"))?,
            _bridge: bridge(network, Path::new(BRIDGES))?,
        })
    }
}

/// The lock of the built-in network's bridge, whose rules and addresses only one daemon may keep. A bridge of the same name
/// in another network namespace is another bridge.
fn bridge(network: &Network, dir: &Path) -> Result<Option<Lock>, LockError> {
    if matches!(network.mode, NetworkMode::Cni | NetworkMode::None) {
        return Ok(None);
    }
    let failed = |path: &Path, source| LockError::File { path: path.to_owned(), source };
    let namespace = PathBuf::from("/proc/self/ns/net");
    let number = std::fs::metadata(&namespace).map_err(|error| failed(&namespace, error))?.ino();
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir).map_err(|error| failed(dir, error))?;
    Lock::take_passing(&dir.join(format!("{}@{number}", network.builtin.bridge))).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_has_one_daemon_and_cni_needs_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut network = Network::default();
        let first = bridge(&network, dir.path()).unwrap();
        assert!(first.is_some());
        let error = bridge(&network, dir.path()).unwrap_err().to_string();
        assert!(error.contains("berth0@") && error.contains("[network.builtin] bridge"), "{error}");
        network.builtin.bridge = "other0".to_owned();
        assert!(bridge(&network, dir.path()).unwrap().is_some());
        network.mode = NetworkMode::Cni;
        assert!(bridge(&network, dir.path()).unwrap().is_none());
    }
}
