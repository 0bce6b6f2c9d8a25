//! Hard links: to anything in the layer, wherever it stands; and, written down for later, to files of lower layers.

use super::entry::Place;
use super::tree::{Missing, Node, clean, split};
use super::{Applier, ApplyError};
use crate::unpack::tar::Entry;
use rustix::fs::{AtFlags, FileType, linkat, statat};
use rustix::io::Errno;
use std::rc::Rc;

/// A target is looked for, never made.
struct Never;

impl Missing for Never {
    fn missing(&mut self, _: &Node, _: &[u8], _: Errno) -> Result<bool, ApplyError> {
        Ok(false)
    }
}

/// Where a link's target is.
enum Target {
    /// In the layer.
    Here(Rc<Node>, Vec<u8>),
    /// Not in the layer, or not yet; its path with the links of this layer resolved as far as they go.
    Elsewhere(Vec<u8>),
}

impl Applier {
    pub(super) fn hard_link(&mut self, place: &Place<'_>, entry: &Entry) -> Result<(), ApplyError> {
        let target = clean(&entry.link).map_err(|why| ApplyError::entry(&entry.name, why))?;
        match self.find(&target, &entry.name)? {
            Target::Here(node, name) => self.link_here(place, &node, &name),
            Target::Elsewhere(target) => {
                self.clear(place)?;
                self.records.links.insert(place.path.clone(), target);
                Ok(())
            }
        }
    }

    fn find(&mut self, target: &[u8], shown: &[u8]) -> Result<Target, ApplyError> {
        let Some((parent, name)) = split(target) else {
            return Err(ApplyError::entry(shown, "a hard link to the root"));
        };
        let Some(node) = self.tree.directory(parent, &mut Never)? else {
            return Ok(Target::Elsewhere(target.to_vec()));
        };
        let path = node.child(name);
        if self.records.whiteouts.contains(&path) {
            return Err(ApplyError::entry(shown, "a hard link to a file that this layer deletes"));
        }
        if let Some(target) = self.records.links.get(&path) {
            return Ok(Target::Elsewhere(target.clone()));
        }
        match statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(ApplyError::entry(shown, "a hard link to a directory"))
            }
            Ok(_) => Ok(Target::Here(node, name.to_vec())),
            Err(Errno::NOENT) => Ok(Target::Elsewhere(path)),
            Err(errno) => Err(ApplyError::kernel("look at link target", &path)(errno)),
        }
    }

    fn link_here(&mut self, place: &Place<'_>, node: &Node, name: &[u8]) -> Result<(), ApplyError> {
        let stat = |node: &Node, name: &[u8]| statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(old), Ok(new)) = (stat(&place.node, place.name), stat(node, name))
            && old.st_ino == new.st_ino
        {
            return Ok(());
        }
        let here = Rc::clone(&place.node);
        let link = || linkat(&node.fd, name, &here.fd, place.name, AtFlags::empty());
        match self.make(place, "make hard link", link) {
            Err(ApplyError::Kernel { source: Errno::NOENT, .. }) => {
                Err(ApplyError::entry(&place.path, "a hard link that replaces its own target"))
            }
            other => other,
        }?;
        self.counts.inodes = self.counts.inodes.saturating_sub(1);
        self.records.links.remove(&place.path);
        Ok(())
    }

    /// Links whose target came after them. What is still missing must come from below.
    pub(super) fn late_links(&mut self) -> Result<(), ApplyError> {
        for (path, _) in self.records.links.clone() {
            let Some(target) = self.last_target(&path) else { continue };
            let Some((parent, name)) = split(&path) else { continue };
            let place = Place { node: self.parent(parent)?, name, path: path.clone() };
            self.records.links.remove(&path);
            match self.find(&target, &path)? {
                Target::Here(node, name) => self.link_here(&place, &node, &name)?,
                Target::Elsewhere(target) => {
                    self.records.links.insert(path, target);
                }
            }
        }
        Ok(())
    }

    /// Follows links to links, so that each names a file.
    fn last_target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut target = self.records.links.get(path)?;
        for _ in 0..self.records.links.len() {
            match self.records.links.get(target) {
                Some(next) if next != target => target = next,
                _ => break,
            }
        }
        Some(target.clone())
    }
}
