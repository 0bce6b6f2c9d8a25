//! One process for one directory: an exclusive lock on a file that names its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A lock held until dropped. The file stays, unless it was asked to go; the lock is what counts.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    /// What is removed while the lock is still held.
    passing: Option<PathBuf>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = &self.passing {
            // It may be gone already; a file that stays hinders nobody.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody has it.
    #[error(
        "{path} is held by {holder}: only one berthd may use a directory or a bridge, give this one another --root, --state, \
         and in its configuration another [network.builtin] bridge and subnets"
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who has it, as far as it is known.
        holder: String,
    },
    /// The file cannot be made or locked.
    #[error("lock {path}: {source}")]
    File {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Lock {
    /// Takes the lock on `path` or says who has it.
    ///
    /// # Errors
    /// Held by another process, or the file cannot be made.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::File { path: path.to_owned(), source };
        loop {
            let file = locked(path)?;
            let own = file.metadata().map_err(failed)?.ino();
            // Its last holder may have removed it between our opening and our locking it.
            if std::fs::metadata(path).is_ok_and(|there| there.ino() == own) {
                return Ok(Self { _file: file, passing: None });
            }
        }
    }

    /// The same for a file that goes with the lock.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn take_passing(path: &Path) -> Result<Self, LockError> {
        let mut lock = Self::take(path)?;
        lock.passing = Some(path.to_owned());
        Ok(lock)
    }
}

fn locked(path: &Path) -> Result<File, LockError> {
    let failed = |source| LockError::File { path: path.to_owned(), source };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(LockError::Held { path: path.to_owned(), holder: holder(&mut file) });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// Who wrote its pid into the file, and what that process is called.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind();
    let _ = file.take(32).read_to_string(&mut text);
    let Ok(pid) = text.trim().parse::<u32>() else { return "another process".to_owned() };
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("pid {pid} ({})", name.trim()),
        Err(_) => format!("pid {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passing_lock_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take_passing(&path).unwrap();
        assert!(Lock::take_passing(&path).is_err());
        drop(first);
        assert!(!path.exists());
        drop(Lock::take_passing(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn the_second_is_told_who_has_it_and_gets_it_when_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let text = Lock::take(&path).unwrap_err().to_string();
        assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
        drop(first);
        Lock::take(&path).unwrap();
    }

    #[test]
    fn an_unreadable_holder_is_still_a_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _first = Lock::take(&path).unwrap();
        std::fs::write(&path, "garbage").unwrap();
        assert!(Lock::take(&path).unwrap_err().to_string().contains("another process"));
    }
}
