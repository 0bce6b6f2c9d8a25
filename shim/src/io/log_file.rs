//! A container's log file. One writer, whole records only; a disk that takes no more costs records, never the
//! container: what cannot be written is dropped and counted, and writing is tried again with the next output.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// A file that could not be opened is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// The log of one container, for both its streams.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    retry_at: Option<Instant>,
    dropped: u64,
    failing: bool,
}

impl LogFile {
    /// Opens the log. A path of no length discards all output.
    pub(crate) fn open(path: PathBuf) -> io::Result<LogFile> {
        let file = if path.as_os_str().is_empty() { None } else { Some(open(&path)?) };
        Ok(LogFile { path, file, retry_at: None, dropped: 0, failing: false })
    }

    /// Whether output goes anywhere.
    pub(crate) fn discards(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// A log over a file that is no file, which is never opened again.
    #[cfg(test)]
    pub(crate) fn over(file: File) -> LogFile {
        let path = "/nowhere/0.log".into();
        LogFile { path, file: Some(file), retry_at: None, dropped: 0, failing: false }
    }

    /// Whether the file is open now.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Where the log is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on in `file`, which was just opened at the path.
    pub(crate) fn replace(&mut self, file: File) {
        self.file = Some(file);
        self.retry_at = None;
    }

    /// No more output comes: gives the descriptor back.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Appends whole records.
    pub(crate) fn append(&mut self, records: &[u8]) {
        if records.is_empty() || self.discards() {
            return;
        }
        let result = self.usable().and_then(|file| append(file, records));
        match result {
            Ok(()) if self.failing => {
                crate::say!("log {}: written again, {} bytes were lost", self.path.display(), self.dropped);
                self.failing = false;
            }
            Ok(()) => {}
            Err(error) => self.lost(records.len(), &error),
        }
    }

    fn lost(&mut self, bytes: usize, error: &io::Error) {
        self.dropped += bytes as u64;
        if !self.failing {
            crate::say!("log {}: {error}; output is dropped until it can be written", self.path.display());
            self.failing = true;
        }
        // Space may come back under the same file; anything else may need the file anew.
        if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            self.file = None;
            self.retry_at.get_or_insert_with(|| Instant::now() + RETRY);
        }
    }

    fn usable(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            if self.retry_at.is_some_and(|at| Instant::now() < at) {
                return Err(ErrorKind::NotConnected.into());
            }
            self.retry_at = Some(Instant::now() + RETRY);
            self.file = Some(open(&self.path)?);
            self.retry_at = None;
        }
        self.file.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

/// Opens a log for appending; blocks. A pod may be able to write to the directory: a link or a pipe that it laid there
/// is not followed and not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "is no regular file"));
    }
    Ok(file)
}

/// Writes all or nothing, as far as the file system allows: half a record would spoil the next one too.
fn append(file: &mut File, records: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < records.len() {
        match file.write(&records[written..]) {
            Ok(0) => return Err(undo(file, written, ErrorKind::WriteZero.into())),
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(undo(file, written, error)),
        }
    }
    Ok(())
}

fn undo(file: &mut File, written: usize, error: io::Error) -> io::Error {
    if written > 0
        && let Ok(about) = file.metadata()
    {
        let _spoilt = file.set_len(about.len().saturating_sub(written as u64));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_goes_on_in_the_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("0.log"), directory.path().join("0.log.1"));
        let mut log = LogFile::open(path.clone()).unwrap();
        log.append(b"one\n");
        std::fs::rename(&path, &old).unwrap();
        log.append(b"two\n");
        log.replace(open(&path).unwrap());
        log.append(b"three\n");
        assert_eq!(std::fs::read(&old).unwrap(), b"one\ntwo\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
    }

    #[test]
    fn a_failing_file_costs_records_and_is_opened_again() {
        let mut log = LogFile::over(OpenOptions::new().write(true).open("/dev/full").unwrap());
        log.append(b"lost\n");
        assert_eq!((log.dropped, log.failing), (5, true));
        let directory = tempfile::tempdir().unwrap();
        log.path = directory.path().join("later").join("0.log");
        log.file = None;
        log.append(b"lost too\n");
        assert_eq!(log.dropped, 14);
        std::fs::create_dir(directory.path().join("later")).unwrap();
        log.append(b"too early\n");
        assert_eq!(log.dropped, 24, "not tried for every record");
        log.retry_at = Some(Instant::now());
        log.append(b"kept\n");
        assert_eq!(std::fs::read(&log.path).unwrap(), b"kept\n");
        assert!(!log.failing);
    }

    #[test]
    fn what_a_pod_laid_in_the_way_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("0.log"));
        std::fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(open(&link).is_err());
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(open(&pipe).is_err());
    }

    #[test]
    fn without_a_path_everything_is_discarded() {
        let mut log = LogFile::open(PathBuf::new()).unwrap();
        log.append(b"x\n");
        assert_eq!((log.dropped, log.discards()), (0, true));
    }
}
