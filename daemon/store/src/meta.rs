//! Single values of the node: level marks, boot id, the cgroup driver answered.

use crate::db::Db;
use crate::error::StoreError;
use crate::table::{META, get_bytes, put_bytes};
use redb::{Database, ReadableDatabase};
use std::path::Path;
use std::sync::Arc;

/// Level of the records this program writes. Raise it when the meaning of a record changes.
pub(crate) const LEVEL: u32 = 1;
/// Oldest level that may still read what this program writes.
const MIN_READER: u32 = 1;
const MIN_READER_KEY: &str = "min_reader";
const BOOT_KEY: &str = "boot_id";
const DRIVER_KEY: &str = "cgroup_driver";

/// Single values.
#[derive(Debug, Clone)]
pub struct Meta {
    db: Arc<Db>,
}

impl Meta {
    pub(crate) fn new(db: Arc<Db>) -> Self {
        Self { db }
    }

    /// The boot id that was noted last.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn boot(&self) -> Result<Option<String>, StoreError> {
        self.get(BOOT_KEY)
    }

    /// Notes the running kernel's boot id, and marks the level.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn note_boot(&self, boot_id: &str) -> Result<(), StoreError> {
        self.db.write(|txn| {
            put_bytes(txn, META, BOOT_KEY, boot_id.as_bytes())?;
            put_bytes(txn, META, MIN_READER_KEY, MIN_READER.to_string().as_bytes())
        })
    }

    /// The cgroup driver that was answered to the kubelet before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn cgroup_driver(&self) -> Result<Option<String>, StoreError> {
        self.get(DRIVER_KEY)
    }

    /// Keeps the answer for as long as pods exist.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn set_cgroup_driver(&self, driver: &str) -> Result<(), StoreError> {
        self.set(DRIVER_KEY, driver)
    }

    /// A value by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<String>, StoreError> {
        let bytes = self.db.read(|view| get_bytes(view, META, key))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Sets a value by name.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn set(&self, key: &str, value: &str) -> Result<(), StoreError> {
        self.db.write(|txn| put_bytes(txn, META, key, value.as_bytes()))
    }
}

/// Refuses a store whose writer said that programs of this level must not read it.
pub(crate) fn check_level(db: &Database, path: &Path) -> Result<(), StoreError> {
    let bytes = get_bytes(&db.begin_read()?, META, MIN_READER_KEY)?;
    let needs = bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.parse().ok()).unwrap_or(0);
    if needs > LEVEL {
        return Err(StoreError::TooNew { path: path.to_owned(), needs, has: LEVEL });
    }
    Ok(())
}
