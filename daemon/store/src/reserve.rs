//! A file that only holds space, given back when the disk is full so that what must be written still can be.

use crate::backend::allocate;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// Enough for redb to grow once and to write a few hundred small transactions.
pub(crate) const BYTES: u64 = 4 << 20;

/// The space held back.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(crate) fn new(root: &Path) -> Self {
        Self { path: root.join("store.reserve") }
    }

    /// Takes the space if it is not held. On a full disk nothing is left behind.
    pub(crate) fn take(&self) -> io::Result<()> {
        if self.is_held() {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        allocate(&file, 0, BYTES).inspect_err(|_| {
            let _ = std::fs::remove_file(&self.path);
        })
    }

    pub(crate) fn is_held(&self) -> bool {
        // Without fallocate the file is empty and holds nothing; it still counts as taken.
        self.path.exists()
    }

    /// Gives the space back.
    pub(crate) fn free(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
