//! Walking below the root by handles.

use super::ApplyError;
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, mkdirat, openat2, readlinkat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Longest path of an entry; longer ones cannot be named by a container either.
pub const MAX_PATH: usize = 4096;
/// Symlinks followed for one path, as the kernel has it.
const MAX_LINKS: usize = 40;
/// Handles kept open.
const CACHE: usize = 256;

/// A real directory below the root.
#[derive(Debug)]
pub struct Node {
    /// Its handle.
    pub fd: OwnedFd,
    /// Its path without links, relative to the root; empty for the root.
    pub path: Vec<u8>,
    parent: Option<Rc<Node>>,
}

impl Node {
    /// The path of an entry in this directory.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() { name.to_vec() } else { [&self.path, b"/".as_slice(), name].concat() }
    }
}

/// What the walk may do about a missing directory.
pub trait Missing {
    /// Called for `name`, which is no directory in `node`. Ok(true): it was made, look again. Ok(false): give up.
    ///
    /// # Errors
    /// Ends the walk.
    fn missing(&mut self, node: &Node, name: &[u8], found: Errno) -> Result<bool, ApplyError>;
}

/// The root and the directories met lately.
#[derive(Debug)]
pub struct Tree {
    root: Rc<Node>,
    cache: HashMap<Vec<u8>, Rc<Node>>,
}

/// Cleans a path as Go's `path.Clean("/" + name)` does, without the leading slash; but what climbs above the root is
/// refused: no honest tool writes it.
///
/// # Errors
/// Climbing above the root, zero bytes, and absurd lengths.
pub fn clean(name: &[u8]) -> Result<Vec<u8>, &'static str> {
    if name.contains(&0) {
        return Err("the path has a zero byte");
    }
    if name.len() > MAX_PATH {
        return Err("the path is longer than 4096 bytes");
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop().ok_or("the path leaves the layer's root")?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join(&b'/'))
}

/// Parent and last component of a clean path; none for the root.
#[must_use]
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => Some((&path[..at], &path[at + 1..])),
        None => Some((b"", path)),
    }
}

/// A component as the kernel wants it.
///
/// # Errors
/// Never for components of clean paths.
pub fn c_name(name: &[u8]) -> Result<CString, ApplyError> {
    CString::new(name).map_err(|_| ApplyError::entry(name, "the path has a zero byte"))
}

impl Tree {
    pub(crate) fn new(root: OwnedFd) -> Self {
        let root = Rc::new(Node { fd: root, path: Vec::new(), parent: None });
        Self { root, cache: HashMap::new() }
    }

    /// The root's handle.
    #[must_use]
    pub fn root(&self) -> &Rc<Node> {
        &self.root
    }

    /// Forgets all handles: called when a directory or link was taken away, which may change where paths lead.
    pub fn forget(&mut self) {
        self.cache.clear();
    }

    /// The directory that the clean path leads to, with links resolved inside the root.
    ///
    /// # Errors
    /// What `missing` says, link loops, and failed calls.
    pub fn directory(
        &mut self,
        path: &[u8],
        missing: &mut dyn Missing,
    ) -> Result<Option<Rc<Node>>, ApplyError> {
        if let Some(node) = self.cache.get(path) {
            return Ok(Some(Rc::clone(node)));
        }
        let Some((parent, name)) = split(path) else { return Ok(Some(Rc::clone(&self.root))) };
        let start = match self.cache.get(parent) {
            Some(node) => Walk::at(Rc::clone(node), name),
            None => Walk::at(Rc::clone(&self.root), path),
        };
        let Some(node) = start.run(&self.root, missing)? else { return Ok(None) };
        if self.cache.len() >= CACHE {
            self.cache.clear();
        }
        self.cache.insert(path.to_vec(), Rc::clone(&node));
        Ok(Some(node))
    }
}

struct Walk {
    node: Rc<Node>,
    /// Components still to go, last first.
    todo: Vec<Vec<u8>>,
    links: usize,
}

impl Walk {
    fn at(node: Rc<Node>, path: &[u8]) -> Self {
        let mut walk = Self { node, todo: Vec::new(), links: 0 };
        walk.push(path);
        walk
    }

    fn push(&mut self, path: &[u8]) {
        let parts = path.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".");
        self.todo.extend(parts.rev().map(<[u8]>::to_vec));
    }

    fn run(mut self, root: &Rc<Node>, missing: &mut dyn Missing) -> Result<Option<Rc<Node>>, ApplyError> {
        while let Some(name) = self.todo.pop() {
            if name == b".." {
                if let Some(parent) = self.node.parent.clone() {
                    self.node = parent;
                }
                continue;
            }
            match open_dir(self.node.fd.as_fd(), &name) {
                Ok(fd) => {
                    let path = self.node.child(&name);
                    self.node = Rc::new(Node { fd, path, parent: Some(Rc::clone(&self.node)) });
                }
                Err(Errno::NOTDIR | Errno::LOOP) if self.follow(root, &name)? => {}
                Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
                    if !missing.missing(&self.node, &name, errno)? {
                        return Ok(None);
                    }
                    self.todo.push(name);
                }
                Err(errno) => {
                    return Err(ApplyError::kernel("open directory", &self.node.child(&name))(errno));
                }
            }
        }
        Ok(Some(self.node))
    }

    /// Whether `name` is a symlink; then its components come next.
    fn follow(&mut self, root: &Rc<Node>, name: &[u8]) -> Result<bool, ApplyError> {
        let Ok(target) = readlinkat(&self.node.fd, c_name(name)?, Vec::new()) else { return Ok(false) };
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(ApplyError::entry(&self.node.child(name), "too many symlinks on the way"));
        }
        let target = target.to_bytes();
        if target.starts_with(b"/") {
            self.node = Rc::clone(root);
        }
        self.push(target);
        Ok(true)
    }
}

/// Opens one component, never through a link or into another mount.
pub(crate) fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(dir, name, flags, Mode::empty(), resolve)
}

/// Makes a directory without an entry: always 0755 of root, also in a directory that hands its group down.
pub(crate) fn make_default_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    make_dir(dir, name)?;
    let made = open_dir(dir, name)?;
    fchown(&made, Some(Uid::ROOT), Some(Gid::ROOT))?;
    fchmod(&made, Mode::from_raw_mode(0o755))
}

/// Makes a directory whose attributes come later.
pub(crate) fn make_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    mkdirat(dir, name, Mode::from_raw_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_like_gos() {
        let cases: [(&[u8], &[u8]); 8] = [
            (b"a/b", b"a/b"),
            (b"/a//b/./c/", b"a/b/c"),
            (b"a/../b", b"b"),
            (b".", b""),
            (b"", b""),
            (b"./", b""),
            (b"a/..", b""),
            (b"...", b"..."),
        ];
        for (from, to) in cases {
            assert_eq!(clean(from).unwrap(), to, "{from:?}");
        }
        for climbing in [&b".."[..], b"../a", b"a/../../b", b"/../a"] {
            assert!(clean(climbing).is_err(), "{climbing:?}");
        }
        assert!(clean(b"a\0b").is_err());
        assert!(clean(&[b'a'; 4097]).is_err());
    }
}
