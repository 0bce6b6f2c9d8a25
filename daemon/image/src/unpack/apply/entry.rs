//! Entries of every type but whiteouts: an entry replaces what stands at its path, only a directory joins a directory.

use super::records::{Directory, Records};
use super::tree::{Missing, Node, c_name, make_default_dir, make_dir, open_dir};
use super::{Applier, ApplyError, Counts, meta};
use crate::unpack::tar::{Entry, Kind, Reader};
use berth_snapshot::RootAttributes;
use rustix::fs::{
    AtFlags, FileType, Mode, Timespec, Timestamps, futimens, makedev, mknodat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

/// Where an entry goes.
pub(super) struct Place<'a> {
    pub(super) node: Rc<Node>,
    pub(super) name: &'a [u8],
    /// The real path, without links.
    pub(super) path: Vec<u8>,
}

/// Makes directories that have no entry of their own, and writes that down.
struct Maker<'a> {
    records: &'a mut Records,
    counts: &'a mut Counts,
}

impl Missing for Maker<'_> {
    fn missing(&mut self, node: &Node, name: &[u8], found: Errno) -> Result<bool, ApplyError> {
        let path = node.child(name);
        let kind = if self.records.whiteouts.remove(&path) {
            unlinkat(&node.fd, name, AtFlags::empty())
                .map_err(ApplyError::kernel("remove whiteout", &path))?;
            self.records.opaque.insert(path.clone());
            Directory::Fresh
        } else if found == Errno::NOENT && !self.records.links.contains_key(&path) {
            self.counts.inodes += 1;
            self.counts.bytes += 4096;
            Directory::Implicit
        } else {
            return Err(ApplyError::entry(&path, "a file stands where a later entry needs a directory"));
        };
        make_default_dir(node.fd.as_fd(), name).map_err(ApplyError::kernel("make directory", &path))?;
        self.records.directories.insert(path, kind);
        Ok(true)
    }
}

impl Applier {
    /// The directory an entry goes into, made if need be.
    pub(super) fn parent(&mut self, parent: &[u8]) -> Result<Rc<Node>, ApplyError> {
        let mut maker = Maker { records: &mut self.records, counts: &mut self.counts };
        let found = self.tree.directory(parent, &mut maker)?;
        found.ok_or_else(|| ApplyError::entry(parent, "the parent directory cannot be made"))
    }

    pub(super) fn plain<R: Read>(
        &mut self,
        tar: &mut Reader<R>,
        entry: &Entry,
        parent: &[u8],
        name: &[u8],
    ) -> Result<(), ApplyError> {
        let node = self.parent(parent)?;
        let path = node.child(name);
        let place = Place { node, name, path };
        if entry.kind != Kind::HardLink {
            self.records.links.remove(&place.path);
        }
        match entry.kind {
            Kind::Directory => self.directory(&place, entry),
            Kind::File => self.file(tar, &place, entry),
            Kind::Symlink => self.symlink(&place, entry),
            Kind::HardLink => self.hard_link(&place, entry),
            Kind::Char if entry.device == (0, 0) => self.whiteout(parent, name, &entry.name),
            Kind::Char => self.special(&place, entry, FileType::CharacterDevice),
            Kind::Block => self.special(&place, entry, FileType::BlockDevice),
            Kind::Fifo => self.special(&place, entry, FileType::Fifo),
        }
    }

    /// Runs `make`; when something is in the way takes that away and runs it again.
    pub(super) fn make<T>(
        &mut self,
        place: &Place<'_>,
        act: &'static str,
        make: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, ApplyError> {
        let made = match make() {
            Err(Errno::EXIST) => {
                self.clear(place)?;
                make()
            }
            other => other,
        };
        let made = made.map_err(ApplyError::kernel(act, &place.path))?;
        self.counts.inodes += 1;
        Ok(made)
    }

    /// Takes away whatever stands at a place.
    pub(super) fn clear(&mut self, place: &Place<'_>) -> Result<(), ApplyError> {
        let stat = match statat(&place.node.fd, place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(ApplyError::kernel("look at", &place.path)(errno)),
        };
        let name = c_name(place.name)?;
        berth_snapshot::remove::entry_in(place.node.fd.as_fd(), &name, Path::new("the replaced entry"))
            .map_err(|error| ApplyError::entry(&place.path, berth_core::error::chain(&error)))?;
        self.counts.inodes = self.counts.inodes.saturating_sub(1);
        self.records.forget(&place.path);
        if matches!(FileType::from_raw_mode(stat.st_mode), FileType::Directory | FileType::Symlink) {
            self.tree.forget();
        }
        Ok(())
    }

    fn directory(&mut self, place: &Place<'_>, entry: &Entry) -> Result<(), ApplyError> {
        match make_dir(place.node.fd.as_fd(), place.name) {
            Ok(()) => self.count_directory(),
            Err(Errno::EXIST) => self.join_directory(place)?,
            Err(errno) => return Err(ApplyError::kernel("make directory", &place.path)(errno)),
        }
        let fd = open_dir(place.node.fd.as_fd(), place.name)
            .map_err(ApplyError::kernel("open directory", &place.path))?;
        self.counts.dropped_xattrs += meta::to_file(fd.as_fd(), entry, &place.path)?;
        self.records.directories.insert(place.path.clone(), Directory::Explicit(entry.mtime));
        Ok(())
    }

    fn count_directory(&mut self) {
        self.counts.inodes += 1;
        self.counts.bytes += 4096;
    }

    /// Something is there: a directory is joined, anything else gives way. A directory over a whiteout of this layer
    /// hides what was deleted.
    fn join_directory(&mut self, place: &Place<'_>) -> Result<(), ApplyError> {
        let stat = statat(&place.node.fd, place.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(ApplyError::kernel("look at", &place.path))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Ok(());
        }
        let deleted = self.records.whiteouts.contains(&place.path);
        self.clear(place)?;
        make_dir(place.node.fd.as_fd(), place.name)
            .map_err(ApplyError::kernel("make directory", &place.path))?;
        self.count_directory();
        if deleted {
            self.records.opaque.insert(place.path.clone());
        }
        Ok(())
    }

    fn symlink(&mut self, place: &Place<'_>, entry: &Entry) -> Result<(), ApplyError> {
        if entry.link.is_empty() || entry.link.contains(&0) {
            return Err(ApplyError::entry(&entry.name, "a symlink to nothing"));
        }
        let (fd, name) = (Rc::clone(&place.node), place.name);
        self.make(place, "make symlink", || symlinkat(entry.link.as_slice(), &fd.fd, name))?;
        self.counts.dropped_xattrs += meta::to_name(place, entry, false)?;
        Ok(())
    }

    fn special(&mut self, place: &Place<'_>, entry: &Entry, kind: FileType) -> Result<(), ApplyError> {
        let number = |value: i64, max: u32| u32::try_from(value).ok().filter(|value| *value <= max);
        let device = match kind {
            FileType::Fifo => 0,
            _ => match (number(entry.device.0, 0xfff), number(entry.device.1, 0xf_ffff)) {
                (Some(major), Some(minor)) => makedev(major, minor),
                _ => return Err(ApplyError::entry(&entry.name, "device numbers out of range")),
            },
        };
        let (node, name, mode) = (Rc::clone(&place.node), place.name, Mode::from_raw_mode(entry.mode));
        self.make(place, "make device or pipe", || mknodat(&node.fd, name, kind, mode, device))?;
        self.counts.dropped_xattrs += meta::to_name(place, entry, true)?;
        Ok(())
    }

    /// The entry of `/` itself.
    pub(super) fn root_entry(&mut self, entry: &Entry) -> Result<(), ApplyError> {
        if entry.kind != Kind::Directory {
            return Err(ApplyError::entry(&entry.name, "the root must be a directory"));
        }
        let root = Rc::clone(self.tree.root());
        self.counts.dropped_xattrs += meta::to_file(root.fd.as_fd(), entry, b"/")?;
        let (uid, gid) = meta::owner(entry)?;
        let ((mtime, mtime_nsec), mode) = (entry.mtime, entry.mode);
        self.records.root = Some(RootAttributes { mode, uid, gid, mtime, mtime_nsec });
        self.records.directories.insert(Vec::new(), Directory::Explicit(entry.mtime));
        Ok(())
    }

    /// Directories get their times last, since every entry made in them changes those. One without an entry gets a
    /// fixed time, so that the same layer gives the same tree.
    pub(super) fn directory_times(&mut self) -> Result<(), ApplyError> {
        let root = Rc::clone(self.tree.root());
        for (path, kind) in &self.records.directories {
            let (seconds, nanos) = match kind {
                Directory::Explicit(time) => *time,
                Directory::Implicit | Directory::Fresh => (0, 0),
            };
            let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
            let times = Timestamps { last_access: time, last_modification: time };
            let set = if path.is_empty() {
                futimens(&root.fd, &times)
            } else {
                open_dir(root.fd.as_fd(), path).and_then(|fd| futimens(fd, &times))
            };
            set.map_err(ApplyError::kernel("set times", path))?;
        }
        Ok(())
    }
}
