//! A layer: entries in order, then a tar stream, then perhaps a compressed one.

use super::digest::sha256;
use super::tar::{Entry, Kind, archive};
use super::{Blob, media};
use std::io::Write;

/// How a layer travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    None,
    /// The usual.
    #[default]
    Gzip,
    /// The newer.
    Zstd,
}

/// A layer being put together.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    entries: Vec<Entry>,
    compression: Compression,
}

impl Layer {
    /// An empty layer that travels gzipped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Travels like this.
    #[must_use]
    pub fn compressed(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Adds any entry.
    #[must_use]
    pub fn entry(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds a directory.
    #[must_use]
    pub fn dir(self, path: &str, mode: u32) -> Self {
        self.entry(Entry::new(path, Kind::Dir).mode(mode))
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        self.entry(Entry::new(path, Kind::File(content.into())).mode(mode))
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(Entry::new(path, Kind::Symlink(target.to_owned())))
    }

    /// Adds a hard link; its mode is the tar's word and counts.
    #[must_use]
    pub fn hardlink(self, path: &str, target: &str, mode: u32) -> Self {
        self.entry(Entry::new(path, Kind::Hardlink(target.to_owned())).mode(mode))
    }

    /// Removes a path of a lower layer.
    #[must_use]
    pub fn whiteout(self, path: &str) -> Self {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let slash = if folder.is_empty() { "" } else { "/" };
        self.file(&format!("{folder}{slash}.wh.{name}"), 0o644, Vec::new())
    }

    /// The tar archive alone, as it is before compression.
    pub fn tar(&self) -> Vec<u8> {
        archive(&self.entries)
    }

    /// The layer as a blob, and the digest of its plain tar (the diffID).
    pub fn build(&self) -> (Blob, String) {
        let tar = self.tar();
        let diff_id = sha256(&tar);
        let (suffix, bytes) = match self.compression {
            Compression::None => ("", tar),
            Compression::Gzip => ("+gzip", gzip(&tar)),
            Compression::Zstd => ("+zstd", zstd::encode_all(&tar[..], 3).unwrap_or_default()),
        };
        (Blob::new(&format!("{}{suffix}", media::LAYER), bytes), diff_id)
    }
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(tar);
    encoder.finish().unwrap_or_default()
}
