//! One daemon for one root and one state directory.

use crate::paths::Paths;
use berth_store::{Lock, LockError};

/// Both locks, held until dropped.
#[derive(Debug)]
pub struct Locks {
    _root: Lock,
    _state: Lock,
}

impl Locks {
    /// Takes both.
    ///
    /// # Errors
    /// Another daemon has one of them: its pid is named.
    pub fn take(paths: &Paths) -> Result<Self, LockError> {
        Ok(Self {
            _root: Lock::take(&paths.root.join("lock"))?,
            _state: Lock::take(&paths.state.join("lock"))?,
        })
    }
}
