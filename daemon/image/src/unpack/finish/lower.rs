//! The merged view of layers, as overlay would show it, without mounting it.

use crate::unpack::apply::tree::open_dir;
use rustix::fs::{AtFlags, FileType, Stat, fgetxattr, makedev, readlinkat, statat};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const MAX_LINKS: usize = 40;
/// Look-ups in single directories for one layer: a minute's worth. Paths, and layers below, may be long and many.
const MAX_LOOKS: u64 = 1 << 26;

/// Why nothing can be said about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookError {
    /// A system call failed.
    Kernel(Errno),
    /// The layer asks for too much.
    TooMuch,
    /// Nobody waits for it any more.
    GivenUp,
}

impl From<Errno> for LookError {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

/// Layers, topmost first.
#[derive(Debug)]
pub struct Lower<'a> {
    layers: &'a [OwnedFd],
    looks: Cell<u64>,
    given_up: Option<&'a AtomicBool>,
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
        Self { layers, looks: Cell::new(0), given_up: None }
    }

    /// As [`new`](Self::new); every look-up fails once `given_up` is set.
    #[must_use]
    pub fn watched(layers: &'a [OwnedFd], given_up: &'a AtomicBool) -> Self {
        Self { given_up: Some(given_up), ..Self::new(layers) }
    }

    /// Before each look at one directory.
    fn look(&self) -> Result<(), LookError> {
        let looks = self.looks.get() + 1;
        self.looks.set(looks);
        if looks > MAX_LOOKS {
            return Err(LookError::TooMuch);
        }
        if self.given_up.is_some_and(|given_up| given_up.load(Ordering::Relaxed)) {
            return Err(LookError::GivenUp);
        }
        Ok(())
    }

    /// What stands at exactly this path, with no link on the way.
    ///
    /// # Errors
    /// Failed calls other than "not there".
    pub fn exact(&self, path: &[u8]) -> Result<Option<Found>, LookError> {
        let mut dirs: Option<Vec<OwnedFd>> = None;
        let mut parts = path.split(|b| *b == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(name) = parts.next() {
            match self.step(dirs.as_deref(), name)? {
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
    pub fn follow(&self, path: &[u8]) -> Result<Option<Found>, LookError> {
        match self.real_path(path)? {
            Some(real) => self.exact(&real),
            None => Ok(None),
        }
    }

    /// The file to which a path leads: links are followed on the way, not at its end. Also its real path.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub fn file(&self, path: &[u8]) -> Result<Option<(Vec<u8>, Found)>, LookError> {
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
    fn real_path(&self, path: &[u8]) -> Result<Option<Vec<u8>>, LookError> {
        let mut real: Vec<Vec<u8>> = Vec::new();
        // The parts of the directory reached so far; none for the root.
        let mut at: Option<Vec<OwnedFd>> = None;
        let mut todo: Vec<Vec<u8>> = components(path);
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == b".." {
                real.pop();
                at = match self.exact(&real.join(&b'/'))? {
                    Some(Found::Directory(dirs, _)) => Some(dirs),
                    _ => None,
                };
                continue;
            }
            match self.step(at.as_deref(), &name)? {
                Some(Found::Directory(below, _)) => {
                    real.push(name);
                    at = Some(below);
                }
                Some(Found::Other(dir, name, stat)) if kind(&stat) == FileType::Symlink => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = readlinkat(&dir, name.as_slice(), Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        real.clear();
                        at = None;
                    }
                    todo.extend(components(&target));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(real.join(&b'/')))
    }

    /// Looks `name` up in a merged directory; without one, in the root.
    fn step(&self, dirs: Option<&[OwnedFd]>, name: &[u8]) -> Result<Option<Found>, LookError> {
        let mut merged: Vec<OwnedFd> = Vec::new();
        let mut top = None;
        for dir in dirs.unwrap_or(self.layers) {
            self.look()?;
            let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if kind(&stat) != FileType::Directory {
                if merged.is_empty() && !is_whiteout(&stat) {
                    let dir = dir.try_clone().map_err(io)?;
                    return Ok(Some(Found::Other(dir, name.to_vec(), Box::new(stat))));
                }
                break;
            }
            let below = open_dir(dir.as_fd(), name)?;
            let opaque = is_opaque(below.as_fd());
            merged.push(below);
            top.get_or_insert(stat);
            if opaque {
                break;
            }
        }
        Ok(top.map(|stat| Found::Directory(merged, Box::new(stat))))
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

fn io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn is_opaque(dir: BorrowedFd<'_>) -> bool {
    let mut value = [0u8; 4];
    matches!(fgetxattr(dir, c"trusted.overlay.opaque", &mut value), Ok(1) if value[0] == b'y')
}
