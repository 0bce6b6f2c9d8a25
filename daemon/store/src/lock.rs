//! One process for one directory: an exclusive lock on a file that names its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A lock held until dropped. The file stays; the lock is what counts.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody has it.
    #[error(
        "{path} is held by {holder}: only one berthd may use a directory, give this one another --root and --state"
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
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: path.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
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
