//! Applying a tar to a directory, in overlay's on-disk format and never outside of it.
//!
//! Every path is walked component by component with directory handles and without following links in the kernel
//! ([`tree`]); a symlink met on the way is resolved here, inside the root. What the layer does not contain but needs is
//! written down ([`records`]) instead of guessed.

pub mod entry;
pub mod file;
pub mod link;
pub mod meta;
pub mod records;
pub mod tree;
pub mod whiteout;

use super::limits::Limits;
use super::report::{Failure, FailureKind, Needs, Report};
use super::tar::{Entry, Reader, TarError};
use berth_snapshot::{Digest, RootAttributes};
use records::Records;
use rustix::io::Errno;
use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::OwnedFd;
use tree::Tree;

/// Why a layer could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The tar itself is bad.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// An entry is bad.
    #[error("entry {path:?}: {why}")]
    Entry {
        /// The entry's path, as written.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A system call failed.
    #[error("entry {path:?}: {act}")]
    Kernel {
        /// The entry's path, as written.
        path: String,
        /// What was being done.
        act: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
    /// More than the limits allow.
    #[error("the layer has more than {limit} {what}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

impl ApplyError {
    fn entry(path: &[u8], why: impl Into<String>) -> Self {
        Self::Entry { path: shown(path), why: why.into() }
    }

    fn kernel(act: &'static str, path: &[u8]) -> impl FnOnce(Errno) -> Self {
        let path = shown(path);
        move |source| Self::Kernel { path, act, source }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        let kind = match &error {
            ApplyError::Tar(TarError::Read(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                FailureKind::TooBig
            }
            ApplyError::Tar(_) | ApplyError::Entry { .. } => FailureKind::BadLayer,
            ApplyError::Kernel { source: Errno::NOSPC | Errno::DQUOT, .. } => FailureKind::NoSpace,
            ApplyError::Kernel { source, .. } if layers_fault(*source) => FailureKind::BadLayer,
            ApplyError::Kernel { .. } => FailureKind::Internal,
            ApplyError::Limit { .. } => FailureKind::TooBig,
        };
        Self { kind, text: berth_core::error::chain(&error) }
    }
}

/// Answers that only an odd layer provokes on a healthy disk.
fn layers_fault(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NAMETOOLONG | Errno::LOOP | Errno::NOTDIR | Errno::MLINK | Errno::FBIG | Errno::INVAL
    )
}

/// A path for people: escaped and cut.
fn shown(path: &[u8]) -> String {
    let mut text = String::new();
    for byte in path.iter().take(200) {
        if byte.is_ascii_graphic() || *byte == b' ' {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if path.len() > 200 {
        text.push('…');
    }
    text
}

/// A layer being applied below one directory.
#[derive(Debug)]
pub struct Applier {
    tree: Tree,
    records: Records,
    limits: Limits,
    counts: Counts,
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
struct Counts {
    entries: u64,
    bytes: u64,
    inodes: u64,
    dropped_xattrs: u64,
}

/// What was applied, before the digest is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    needs: Needs,
    opaque: Vec<Vec<u8>>,
    root: Option<RootAttributes>,
    opaque_root: bool,
    entries: u64,
    bytes: u64,
    inodes: u64,
    dropped_xattrs: u64,
}

impl Applied {
    /// The whole report, once the tar's digest and size are known.
    #[must_use]
    pub fn into_report(self, diff_id: Digest, tar_bytes: u64) -> Report {
        Report {
            diff_id,
            tar_bytes,
            entries: self.entries,
            bytes: self.bytes,
            inodes: self.inodes,
            opaque: self.opaque.into_iter().map(super::wire::ByteText).collect(),
            root: self.root,
            opaque_root: self.opaque_root,
            needs: self.needs,
            dropped_xattrs: self.dropped_xattrs,
        }
    }
}

impl Applier {
    /// An applier into the empty directory `root`.
    #[must_use]
    pub fn new(root: OwnedFd, limits: Limits) -> Self {
        let (tree, records) = (Tree::new(root), Records::default());
        Self { tree, records, limits, counts: Counts::default(), buffer: vec![0; 256 << 10] }
    }

    /// Applies a whole tar.
    ///
    /// # Errors
    /// The first bad entry or failed call; the directory is then garbage.
    pub fn apply<R: Read>(mut self, tar: &mut Reader<R>) -> Result<Applied, ApplyError> {
        while let Some(entry) = tar.next_entry()? {
            self.counts.entries += 1;
            if self.counts.entries > self.limits.max_entries {
                return Err(ApplyError::Limit { what: "entries", limit: self.limits.max_entries });
            }
            self.entry(tar, &entry)?;
        }
        self.finish()
    }

    fn entry<R: Read>(&mut self, tar: &mut Reader<R>, entry: &Entry) -> Result<(), ApplyError> {
        let path = tree::clean(&entry.name).map_err(|why| ApplyError::entry(&entry.name, why))?;
        let Some((parent, name)) = tree::split(&path) else { return self.root_entry(entry) };
        match whiteout::classify(&path) {
            whiteout::Class::Plain => self.plain(tar, entry, parent, name),
            whiteout::Class::Whiteout(name) => self.whiteout(parent, name, &entry.name),
            whiteout::Class::Opaque => self.opaque(parent, &entry.name),
            whiteout::Class::Reserved => Ok(()),
            whiteout::Class::Bad => Err(ApplyError::entry(&entry.name, "a whiteout that names no entry")),
        }
    }

    fn finish(mut self) -> Result<Applied, ApplyError> {
        self.late_links()?;
        self.drop_hidden_whiteouts()?;
        self.directory_times()?;
        let Self { records, counts, .. } = self;
        Ok(Applied {
            needs: records.needs(),
            opaque_root: records.opaque.contains(b"".as_slice()),
            opaque: records.opaque.into_iter().filter(|path| !path.is_empty()).collect(),
            root: records.root,
            entries: counts.entries,
            bytes: counts.bytes,
            inodes: counts.inodes,
            dropped_xattrs: counts.dropped_xattrs,
        })
    }
}

#[cfg(test)]
#[path = "apply/tests.rs"]
mod tests;
