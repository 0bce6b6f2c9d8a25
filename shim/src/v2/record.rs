//! What is left in a bundle for `delete`, which has to clean up after a shim that died.

use std::io;
use std::path::Path;

use berth_core::Timestamp;
use serde::{Deserialize, Serialize};

const CONTAINER: &str = "berth-container.json";
const EXIT: &str = "berth-exit.json";

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    /// Zero while it is being built.
    pub(super) pid: i32,
    /// When that process began, so that no other one of that number is taken for it.
    pub(super) started_ticks: u64,
    /// The cgroup's path in its driver's form.
    pub(super) cgroup: String,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) code: u8,
    pub(super) at: Timestamp,
}

impl Record {
    /// Writes it, over an older one.
    pub(super) fn save(&self, bundle: &Path) -> io::Result<()> {
        save(bundle, CONTAINER, &serde_json::to_vec(self)?)
    }

    /// Reads it, if there is one.
    pub(super) fn load(bundle: &Path) -> Option<Record> {
        serde_json::from_slice(&std::fs::read(bundle.join(CONTAINER)).ok()?).ok()
    }
}

impl Ended {
    /// Writes it.
    pub(super) fn save(&self, bundle: &Path) -> io::Result<()> {
        save(bundle, EXIT, &serde_json::to_vec(self)?)
    }

    /// Reads it, if there is one.
    pub(super) fn load(bundle: &Path) -> Option<Ended> {
        serde_json::from_slice(&std::fs::read(bundle.join(EXIT)).ok()?).ok()
    }
}

/// Forgets the container, so that nobody cleans up after it once more. How it ended may still be asked.
pub(super) fn remove(bundle: &Path) {
    let _not_there = std::fs::remove_file(bundle.join(CONTAINER));
}

fn save(bundle: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let fresh = bundle.join(format!(".{name}"));
    std::fs::write(&fresh, bytes)?;
    std::fs::rename(&fresh, bundle.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read_until_it_is_removed() {
        let bundle = tempfile::tempdir().unwrap();
        let record = Record { id: "x".into(), pid: 7, started_ticks: 9, cgroup: "/a".into() };
        let ended = Ended { code: 3, at: Timestamp(5) };
        record.save(bundle.path()).unwrap();
        ended.save(bundle.path()).unwrap();
        assert_eq!((Record::load(bundle.path()), Ended::load(bundle.path())), (Some(record), Some(ended)));
        remove(bundle.path());
        assert_eq!((Record::load(bundle.path()), Ended::load(bundle.path())), (None, Some(ended)));
    }
}
