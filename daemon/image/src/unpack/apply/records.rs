//! What has been applied so far, as far as later entries or the lower layers matter.

use crate::unpack::report::{NeedLink, Needs};
use crate::unpack::wire::ByteText;
use berth_snapshot::RootAttributes;
use std::collections::{BTreeMap, BTreeSet};

/// Paths here are free of links and relative to the root.
#[derive(Debug, Default)]
pub struct Records {
    /// Directories and when they were modified, which is set at the end.
    pub directories: BTreeMap<Vec<u8>, Directory>,
    /// Whiteout devices.
    pub whiteouts: BTreeSet<Vec<u8>>,
    /// Directories that hide what is below; the root is the empty path.
    pub opaque: BTreeSet<Vec<u8>>,
    /// Hard links whose target has not been met: path to target.
    pub links: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The root's own entry.
    pub root: Option<RootAttributes>,
}

/// A directory of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directory {
    /// It has an entry, with this time.
    Explicit((i64, u32)),
    /// It has none: its attributes come from below.
    Implicit,
    /// It has none, and what was below is deleted in this layer.
    Fresh,
}

impl Records {
    /// Forgets a path and everything below it: it was taken away.
    pub fn forget(&mut self, path: &[u8]) {
        let below = [path, b"/"].concat();
        forget_map(&mut self.directories, path, &below);
        forget_map(&mut self.links, path, &below);
        forget_set(&mut self.whiteouts, path, &below);
        forget_set(&mut self.opaque, path, &below);
    }

    /// Whether something above `path` (or, for an entry of it, the directory itself) hides all that is below.
    #[must_use]
    pub fn hidden(&self, path: &[u8]) -> bool {
        if self.opaque.contains(b"".as_slice()) {
            return true;
        }
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        ends.into_iter().any(|end| self.opaque.contains(&path[..end]))
    }

    /// What the lower layers must supply.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let implicit = self.directories.iter().filter(|(_, dir)| **dir == Directory::Implicit);
        let wanted = implicit.map(|(path, _)| path).filter(|path| !path.is_empty() && !self.hidden(path));
        let link = |(path, target): (&Vec<u8>, &Vec<u8>)| NeedLink {
            path: ByteText(path.clone()),
            target: ByteText(target.clone()),
        };
        Needs {
            directories: wanted.cloned().map(ByteText).collect(),
            whiteouts: self.whiteouts.iter().cloned().map(ByteText).collect(),
            links: self.links.iter().map(link).collect(),
        }
    }
}

fn forget_map<V>(map: &mut BTreeMap<Vec<u8>, V>, path: &[u8], below: &[u8]) {
    map.remove(path);
    let from = map.range(below.to_vec()..).map(|(key, _)| key);
    let keys: Vec<Vec<u8>> = from.take_while(|key| key.starts_with(below)).cloned().collect();
    for key in keys {
        map.remove(&key);
    }
}

fn forget_set(set: &mut BTreeSet<Vec<u8>>, path: &[u8], below: &[u8]) {
    set.remove(path);
    let from = set.range(below.to_vec()..);
    let keys: Vec<Vec<u8>> = from.take_while(|key| key.starts_with(below)).cloned().collect();
    for key in keys {
        set.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_takes_what_is_below_and_not_what_only_looks_so() {
        let mut records = Records::default();
        for path in ["a", "a/b", "a/b/c", "a-b", "ab", "a.x"] {
            records.directories.insert(path.into(), Directory::Implicit);
            records.opaque.insert(path.into());
        }
        records.forget(b"a");
        let left: Vec<_> = records.directories.keys().map(|key| String::from_utf8_lossy(key)).collect();
        assert_eq!(left, ["a-b", "a.x", "ab"]);
        assert_eq!(records.opaque.len(), 3);
    }

    #[test]
    fn what_is_hidden_needs_nothing_from_below() {
        let mut records = Records::default();
        records.directories.insert(b"a/b".to_vec(), Directory::Implicit);
        records.directories.insert(b"c".to_vec(), Directory::Implicit);
        records.opaque.insert(b"a".to_vec());
        assert_eq!(records.needs().directories, [ByteText(b"c".to_vec())]);
    }
}
