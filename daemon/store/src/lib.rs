//! What must survive a restart: versioned records in one redb file.
//!
//! Calls block and are durable when they return. Records are JSON behind one byte of version; a record that cannot
//! be read is still listed by its key, so that it can be shown and removed. On an I/O error the file is reopened
//! with the reserve freed and the call tried once more ([`db`]).

mod backend;
pub mod db;
pub mod error;
mod images;
mod layers;
mod leases;
pub mod lock;
pub mod meta;
mod reserve;
pub mod table;

use std::path::Path;
use std::sync::Arc;

pub use error::StoreError;
pub use lock::{Lock, LockError};
pub use meta::Meta;
pub use table::{Row, Table};

berth_core::fault_points! {
    WRITE = "store.write", "before a transaction writes anything";
    DISK = "store.disk", "at each write to the file: the disk is full";
    COMMIT = "store.commit", "after a transaction has written, before it is durable";
}

/// The file's name in the root directory.
pub const FILE: &str = "store.redb";

/// The open store. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    db: Arc<db::Db>,
}

impl Store {
    /// Opens or makes [`FILE`] in `root` (which must exist) for this process alone.
    ///
    /// # Errors
    /// Held by another process, written by a newer berthd, damaged beyond what redb repairs, or no access.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Ok(Self { db: Arc::new(db::Db::open(root)?) })
    }

    /// Records of sandboxes, by id.
    #[must_use]
    pub fn sandboxes(&self) -> Table {
        Table::new(self.db.clone(), table::SANDBOXES)
    }

    /// Records of containers, by id. Made and removed with [`Store::create_container`] and
    /// [`Store::delete_container`], which also keep the reference to the image.
    #[must_use]
    pub fn containers(&self) -> Table {
        Table::new(self.db.clone(), table::CONTAINERS)
    }

    /// Records of network attachments, by sandbox id (or by a key of the caller's for leftovers).
    #[must_use]
    pub fn attachments(&self) -> Table {
        Table::new(self.db.clone(), table::ATTACHMENTS)
    }

    /// Single values of the node.
    #[must_use]
    pub fn meta(&self) -> Meta {
        Meta::new(self.db.clone())
    }

    /// Whether the last write failed for want of space and has not succeeded since.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.db.is_read_only()
    }
}
