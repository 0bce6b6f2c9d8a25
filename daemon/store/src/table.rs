//! Tables of records: a text key, one byte of version, JSON.

use crate::db::Db;
use crate::error::StoreError;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The version that this program writes.
const VERSION: u8 = 1;

/// Name of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) &'static str);

impl Name {
    pub(crate) fn definition(self) -> TableDefinition<'static, &'static str, &'static [u8]> {
        TableDefinition::new(self.0)
    }
}

pub(crate) const SANDBOXES: Name = Name("sandboxes");
pub(crate) const CONTAINERS: Name = Name("containers");
pub(crate) const ATTACHMENTS: Name = Name("attachments");
pub(crate) const IMAGES: Name = Name("images");
/// Container id → what it needs of the image, so that layers live while a container does.
pub(crate) const REFERENCES: Name = Name("references");
pub(crate) const LAYERS: Name = Name("layers");
pub(crate) const LEASES: Name = Name("leases");
pub(crate) const META: Name = Name("meta");

/// Every table.
pub(crate) const ALL: [Name; 8] =
    [SANDBOXES, CONTAINERS, ATTACHMENTS, IMAGES, REFERENCES, LAYERS, LEASES, META];

pub(crate) fn make_all(txn: &WriteTransaction) -> Result<(), StoreError> {
    for name in ALL {
        txn.open_table(name.definition())?;
    }
    Ok(())
}

/// A record as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row<T> {
    /// It could be read.
    Whole(T),
    /// It could not, and why. The key still names the object.
    Damaged(String),
}

impl<T> Row<T> {
    /// The record, if it could be read.
    pub fn whole(self) -> Option<T> {
        match self {
            Self::Whole(record) => Some(record),
            Self::Damaged(_) => None,
        }
    }
}

/// One table of the store.
#[derive(Debug, Clone)]
pub struct Table {
    db: Arc<Db>,
    name: Name,
}

impl Table {
    pub(crate) fn new(db: Arc<Db>, name: Name) -> Self {
        Self { db, name }
    }

    /// Writes a record, whether or not there was one.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let bytes = encode(key, record)?;
        self.db.write(|txn| put_bytes(txn, self.name, key, &bytes))
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The store cannot be read. A damaged record is no error.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Row<T>>, StoreError> {
        self.db.read(|view| Ok(get_bytes(view, self.name, key)?.map(|bytes| decode(&bytes))))
    }

    /// Removes a record. A missing one is a success.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.db.write(|txn| delete_row(txn, self.name, key))
    }

    /// Every record, sorted by key.
    ///
    /// # Errors
    /// The store cannot be read. Damaged records are listed as such.
    pub fn all<T: DeserializeOwned>(&self) -> Result<Vec<(String, Row<T>)>, StoreError> {
        self.db.read(|view| all_rows(view, self.name))
    }

    /// Every record as its JSON bytes, sorted by key. Those of an unknown version come as they are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn all_raw(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.db.read(|view| {
            let mut rows = Vec::new();
            each_row(view, self.name, |key, bytes| {
                rows.push((key.to_owned(), bytes.strip_prefix(&[VERSION]).unwrap_or(bytes).to_vec()));
            })?;
            Ok(rows)
        })
    }
}

pub(crate) fn encode(key: &str, record: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, record)
        .map_err(|source| StoreError::Encode { key: key.to_owned(), source })?;
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Row<T> {
    match bytes.split_first() {
        Some((&VERSION, json)) => match serde_json::from_slice(json) {
            Ok(record) => Row::Whole(record),
            Err(error) => Row::Damaged(error.to_string()),
        },
        Some((version, _)) => Row::Damaged(format!("record version {version} is not known")),
        None => Row::Damaged("empty".to_owned()),
    }
}

pub(crate) fn put_bytes(
    txn: &WriteTransaction,
    name: Name,
    key: &str,
    bytes: &[u8],
) -> Result<(), StoreError> {
    txn.open_table(name.definition())?.insert(key, bytes)?;
    Ok(())
}

pub(crate) fn delete_row(txn: &WriteTransaction, name: Name, key: &str) -> Result<(), StoreError> {
    txn.open_table(name.definition())?.remove(key)?;
    Ok(())
}

pub(crate) fn get_bytes(
    view: &ReadTransaction,
    name: Name,
    key: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(view.open_table(name.definition())?.get(key)?.map(|value| value.value().to_vec()))
}

/// A record inside a transaction that writes.
pub(crate) fn get_in<T: DeserializeOwned>(
    txn: &WriteTransaction,
    name: Name,
    key: &str,
) -> Result<Option<Row<T>>, StoreError> {
    Ok(txn.open_table(name.definition())?.get(key)?.map(|value| decode(value.value())))
}

/// Every record inside a transaction that writes.
pub(crate) fn all_in<T: DeserializeOwned>(
    txn: &WriteTransaction,
    name: Name,
) -> Result<Vec<(String, Row<T>)>, StoreError> {
    let table = txn.open_table(name.definition())?;
    let mut rows = Vec::new();
    for row in table.iter()? {
        let (key, value) = row?;
        rows.push((key.value().to_owned(), decode(value.value())));
    }
    Ok(rows)
}

pub(crate) fn all_rows<T: DeserializeOwned>(
    view: &ReadTransaction,
    name: Name,
) -> Result<Vec<(String, Row<T>)>, StoreError> {
    let mut rows = Vec::new();
    each_row(view, name, |key, bytes| rows.push((key.to_owned(), decode(bytes))))?;
    Ok(rows)
}

fn each_row(
    view: &ReadTransaction,
    name: Name,
    mut visit: impl FnMut(&str, &[u8]),
) -> Result<(), StoreError> {
    let table = view.open_table(name.definition())?;
    for row in table.iter()? {
        let (key, value) = row?;
        visit(key.value(), value.value());
    }
    Ok(())
}
