//! The redb file: opened once, reopened after an I/O error.
//!
//! One failed write poisons redb until it is reopened. So a transaction that meets an I/O error closes the file,
//! frees the reserve, opens again and is tried once more; if that fails too the store serves reads, and every later
//! write tries anew. The reserve is taken back by the first write that succeeds.

use crate::backend::AllocatedFile;
use crate::error::StoreError;
use crate::lock::Lock;
use crate::reserve::Reserve;
use crate::{COMMIT, WRITE, meta, table};
use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

/// redb's page cache. The whole file of a busy node is 2 to 4 MiB.
const CACHE: usize = 1 << 20;

/// The open file.
#[derive(Debug)]
pub struct Db {
    path: PathBuf,
    reserve: Reserve,
    /// None only while it could not be reopened.
    open: RwLock<Option<Database>>,
    full: AtomicBool,
    _lock: Lock,
}

impl Db {
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        let lock = Lock::take(&root.join("store.lock"))?;
        let path = root.join(crate::FILE);
        let reserve = Reserve::new(root);
        let open = match prepare(&path) {
            // A disk already full at start must not keep the node from being stopped and cleaned.
            Err(error) if error.is_io() && reserve.is_held() => {
                reserve.free();
                prepare(&path)?
            }
            other => other?,
        };
        let full = reserve.take().is_err();
        Ok(Self { path, reserve, open: RwLock::new(Some(open)), full: AtomicBool::new(full), _lock: lock })
    }

    /// Runs `look` over one consistent view.
    pub(crate) fn read<T>(
        &self,
        look: impl Fn(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let once = |db: &Database| look(&db.begin_read()?);
        match self.with(&once) {
            Err(error) if error.is_io() => {
                self.reopen()?;
                self.with(&once)
            }
            other => other,
        }
    }

    /// Runs `change` in one transaction, durable when this returns. It may run twice, so it must only write.
    pub(crate) fn write<T>(
        &self,
        change: impl FnMut(&WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut change = change;
        let mut once = |db: &Database| transaction(db, &mut change);
        let done = match self.with(&mut once) {
            Err(error) if error.is_io() => self.write_again(&error, &mut once),
            other => other,
        };
        if done.is_ok() {
            self.recovered();
        }
        done
    }

    /// The second try, with the reserve given back and the file opened anew.
    fn write_again<T>(
        &self,
        first: &StoreError,
        once: &mut impl FnMut(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.reserve.free();
        self.full.store(true, Relaxed);
        self.reopen().and_then(|()| self.with(once)).map_err(|again| match again.is_io() {
            true => StoreError::NoSpace { cause: first.to_string() },
            false => again,
        })
    }

    /// After a write that went through: hold the reserve again.
    fn recovered(&self) {
        if self.full.load(Relaxed) && self.reserve.take().is_ok() {
            self.full.store(false, Relaxed);
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.full.load(Relaxed)
    }

    fn with<T>(&self, mut act: impl FnMut(&Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        match open.as_ref() {
            Some(db) => act(db),
            None => Err(closed()),
        }
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        // The old one must be closed first: it writes its last words to the same file.
        drop(open.take());
        *open = Some(prepare(&self.path)?);
        Ok(())
    }
}

fn closed() -> StoreError {
    StoreError::Redb(Box::new(redb::Error::PreviousIo))
}

fn transaction<T>(
    db: &Database,
    change: &mut impl FnMut(&WriteTransaction) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    WRITE.pass()?;
    let transaction = db.begin_write()?;
    let done = change(&transaction)?;
    COMMIT.pass()?;
    transaction.commit()?;
    Ok(done)
}

/// Opens or makes the file, makes every table and checks the marks of level.
fn prepare(path: &Path) -> Result<Database, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| StoreError::File { path: path.to_owned(), source })?;
    let db = redb::Builder::new()
        .set_cache_size(CACHE)
        .create_with_backend(AllocatedFile::new(file))
        .map_err(|error| open_error(path, error))?;
    if !is_ready(&db)? {
        transaction(&db, &mut |txn| table::make_all(txn))?;
    }
    meta::check_level(&db, path)?;
    Ok(db)
}

fn open_error(path: &Path, error: redb::DatabaseError) -> StoreError {
    match error {
        // A file that is none of redb's is told as a failed read as well.
        redb::DatabaseError::Storage(redb::StorageError::Io(source))
            if source.kind() != std::io::ErrorKind::InvalidData =>
        {
            redb::StorageError::Io(source).into()
        }
        source => StoreError::Open { path: path.to_owned(), source: Box::new(source) },
    }
}

/// Whether all tables are there: then opening needs no write, which a full disk would refuse.
fn is_ready(db: &Database) -> Result<bool, StoreError> {
    let view = db.begin_read()?;
    for name in table::ALL {
        match view.open_table(name.definition()) {
            Ok(_) => {}
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
