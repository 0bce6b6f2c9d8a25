//! The merged view of layers, as overlay would show it, without mounting it.

use crate::unpack::apply::tree::open_dir;
use rustix::fs::{AtFlags, FileType, Stat, fgetxattr, makedev, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const MAX_LINKS: usize = 40;

/// Layers, topmost first.
#[derive(Debug)]
pub struct Lower<'a> {
    layers: &'a [OwnedFd],
}

/// What stands at a path.
#[derive(Debug)]
pub enum Found {
    /// A directory: its parts, topmost first, and the attributes of the topmost.
    Directory(Vec<OwnedFd>, Box<Stat>),
    /// Anything else: the directory it is in, its name, its attributes.
    Other(OwnedFd, Vec<u8>, Box<Stat>),
}

impl<'a> Lower<'a> {
    /// A view of `layers`, topmost first.
    #[must_use]
    pub fn new(layers: &'a [OwnedFd]) -> Self {
        Self { layers }
    }

    fn roots(&self) -> Vec<BorrowedFd<'_>> {
        self.layers.iter().map(AsFd::as_fd).collect()
    }

    /// What stands at exactly this path, with no link on the way.
    ///
    /// # Errors
    /// Failed calls other than "not there".
    pub fn exact(&self, path: &[u8]) -> Result<Option<Found>, Errno> {
        let mut dirs: Option<Vec<OwnedFd>> = None;
        let mut parts = path.split(|b| *b == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(name) = parts.next() {
            let at =
                dirs.as_ref().map_or_else(|| self.roots(), |dirs| dirs.iter().map(AsFd::as_fd).collect());
            let found = step(&at, name)?;
            match found {
                Some(Found::Directory(below, _)) if parts.peek().is_some() => dirs = Some(below),
                other if parts.peek().is_none() => return Ok(other),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The directory to which a path leads, through links.
    ///
    /// # Errors
    /// Failed calls other than "not there"; `LOOP` after too many links.
    pub fn follow(&self, path: &[u8]) -> Result<Option<Found>, Errno> {
        match self.real_path(path)? {
            Some(real) => self.exact(&real),
            None => Ok(None),
        }
    }

    /// The file to which a path leads: links are followed on the way, not at its end. Also its real path.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub fn file(&self, path: &[u8]) -> Result<Option<(Vec<u8>, Found)>, Errno> {
        let (parent, name) = match path.iter().rposition(|b| *b == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        let Some(mut real) = self.real_path(parent)? else { return Ok(None) };
        if !real.is_empty() {
            real.push(b'/');
        }
        real.extend_from_slice(name);
        Ok(match self.exact(&real)? {
            Some(found @ Found::Other(..)) => Some((real, found)),
            _ => None,
        })
    }

    /// A path with every link resolved inside the view; none when it leads nowhere.
    fn real_path(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let mut real: Vec<Vec<u8>> = Vec::new();
        let mut todo: Vec<Vec<u8>> = components(path);
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == b".." {
                real.pop();
                continue;
            }
            let mut next = real.clone();
            next.push(name);
            match self.exact(&next.join(&b'/'))? {
                Some(Found::Directory(..)) => real = next,
                Some(Found::Other(dir, name, stat)) if kind(&stat) == FileType::Symlink => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    let target = readlinkat(&dir, name.as_slice(), Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        real.clear();
                    }
                    todo.extend(components(&target));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(real.join(&b'/')))
    }
}

/// Components of a path, last first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.rev().map(<[u8]>::to_vec).collect()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_whiteout(stat: &Stat) -> bool {
    kind(stat) == FileType::CharacterDevice && stat.st_rdev == makedev(0, 0)
}

/// Looks `name` up in a merged directory.
fn step(dirs: &[BorrowedFd<'_>], name: &[u8]) -> Result<Option<Found>, Errno> {
    let mut merged: Vec<OwnedFd> = Vec::new();
    let mut top = None;
    for dir in dirs {
        let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        if kind(&stat) != FileType::Directory {
            if merged.is_empty() && !is_whiteout(&stat) {
                return Ok(Some(Found::Other(
                    dir.try_clone_to_owned().map_err(io)?,
                    name.to_vec(),
                    Box::new(stat),
                )));
            }
            break;
        }
        let below = open_dir(*dir, name)?;
        let opaque = is_opaque(below.as_fd());
        merged.push(below);
        top.get_or_insert(stat);
        if opaque {
            break;
        }
    }
    Ok(top.map(|stat| Found::Directory(merged, Box::new(stat))))
}

fn io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn is_opaque(dir: BorrowedFd<'_>) -> bool {
    let mut value = [0u8; 4];
    matches!(fgetxattr(dir, c"trusted.overlay.opaque", &mut value), Ok(1) if value[0] == b'y')
}
