//! Whiteouts: `.wh.name` deletes an entry of a lower layer, `.wh..wh..opq` all entries of a directory. Neither touches
//! what this layer brings itself, whatever the order.

use super::entry::Place;
use super::tree::{c_name, split};
use super::{Applier, ApplyError};
use rustix::fs::{AtFlags, FileType, Mode, makedev, mknodat, statat, unlinkat};
use rustix::io::Errno;

const PREFIX: &[u8] = b".wh.";
const RESERVED: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class<'a> {
    /// An entry.
    Plain,
    /// The entry of this name is deleted.
    Whiteout(&'a [u8]),
    /// Everything below the directory is deleted.
    Opaque,
    /// Bookkeeping of aufs, to be left out.
    Reserved,
    /// A whiteout of nothing, of `.` or of `..`.
    Bad,
}

/// Says what a clean path means.
#[must_use]
pub fn classify(path: &[u8]) -> Class<'_> {
    let Some((parent, name)) = split(path) else { return Class::Plain };
    if parent.split(|b| *b == b'/').any(|part| part.starts_with(RESERVED)) {
        return Class::Reserved;
    }
    if name == OPAQUE {
        return Class::Opaque;
    }
    if name.starts_with(RESERVED) && name.len() > RESERVED.len() {
        return Class::Reserved;
    }
    match name.strip_prefix(PREFIX) {
        None => Class::Plain,
        Some(b"" | b"." | b"..") => Class::Bad,
        Some(name) => Class::Whiteout(name),
    }
}

impl Applier {
    pub(super) fn whiteout(&mut self, parent: &[u8], name: &[u8], shown: &[u8]) -> Result<(), ApplyError> {
        let node = self.parent(parent)?;
        let path = node.child(name);
        if self.records.links.contains_key(&path) {
            return Ok(());
        }
        match statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                self.records.opaque.insert(path.clone());
                // What was below is deleted: its attributes are of no use for a directory without an entry.
                if let Some(kind @ super::records::Directory::Implicit) =
                    self.records.directories.get_mut(&path)
                {
                    *kind = super::records::Directory::Fresh;
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(Errno::NOENT) => {
                let place = Place { node, name, path };
                let mode = Mode::empty();
                mknodat(&place.node.fd, c_name(name)?, FileType::CharacterDevice, mode, makedev(0, 0))
                    .map_err(ApplyError::kernel("make whiteout", shown))?;
                self.records.whiteouts.insert(place.path);
                Ok(())
            }
            Err(errno) => Err(ApplyError::kernel("look at", &path)(errno)),
        }
    }

    pub(super) fn opaque(&mut self, parent: &[u8], shown: &[u8]) -> Result<(), ApplyError> {
        let node = self.parent(parent).map_err(|error| match error {
            ApplyError::Entry { why, .. } => ApplyError::entry(shown, why),
            other => other,
        })?;
        self.records.opaque.insert(node.path.clone());
        Ok(())
    }

    /// A whiteout in a directory that hides everything below deletes nothing more, and would show up as a device.
    pub(super) fn drop_hidden_whiteouts(&mut self) -> Result<(), ApplyError> {
        let hidden: Vec<Vec<u8>> =
            self.records.whiteouts.iter().filter(|path| self.records.hidden(path)).cloned().collect();
        for path in hidden {
            let Some((parent, name)) = split(&path) else { continue };
            let node = self.parent(parent)?;
            unlinkat(&node.fd, name, AtFlags::empty())
                .map_err(ApplyError::kernel("remove whiteout", &path))?;
            self.records.whiteouts.remove(&path);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let cases: [(&str, Class<'_>); 11] = [
            ("a/b", Class::Plain),
            ("a/.wh.b", Class::Whiteout(b"b")),
            (".wh.b", Class::Whiteout(b"b")),
            ("a/.wh..wh..opq", Class::Opaque),
            (".wh..wh.aufs", Class::Reserved),
            (".wh..wh.plnk/77.5", Class::Reserved),
            (".wh.", Class::Bad),
            ("a/.wh..", Class::Bad),
            ("a/.wh...", Class::Bad),
            ("a/.wh..x", Class::Whiteout(b".x")),
            ("a.wh.b", Class::Plain),
        ];
        for (path, class) in cases {
            assert_eq!(classify(path.as_bytes()), class, "{path}");
        }
    }
}
