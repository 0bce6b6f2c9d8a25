//! Paths that the container may not see, and paths it may not write.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use berth_sys::mount::{attach, attr, clone_tree};
use rustix::fs::{FileType, Mode, OFlags, makedev};
use rustix::io::Errno;

use super::filesystem;
use super::mounts::Kernel;
use crate::error::{At, Failure};
use crate::options::Options;

/// Makes each path read-only with all that is mounted below it. What is not there needs no protection.
pub(super) fn read_only(root: &OwnedFd, kernel: &Kernel, paths: &[String]) -> Result<(), Failure> {
    for path in unique(paths) {
        let Some(fd) = present(root, kernel, path)? else { continue };
        let tree = clone_tree(&fd, true).at("make read-only", path)?;
        attach(&tree, &fd).at("make read-only", path)?;
        super::bind::read_only(&tree, true).at("make read-only", path)?;
    }
    Ok(())
}

/// Covers each path: directories with one empty read-only tmpfs that all share, everything else with the null device.
///
/// The null device is verified by its number: a container that could swap /dev/null would get its own file mounted, writable,
/// over /proc/sysrq-trigger (CVE-2025-31133).
pub(super) fn hide(
    root: &OwnedFd,
    kernel: &Kernel,
    paths: &[String],
    label: Option<&str>,
) -> Result<(), Failure> {
    let mut null = None;
    let mut empty: Option<OwnedFd> = None;
    for path in unique(paths) {
        let Some(fd) = present(root, kernel, path)? else { continue };
        let mode = rustix::fs::fstat(&fd).at("mask", path)?.st_mode;
        if FileType::from_raw_mode(mode) == FileType::Directory {
            match &empty {
                Some(first) => {
                    let tree = clone_tree(first, false).at("mask", path)?;
                    attach(&tree, &fd).at("mask", path)?;
                }
                None => {
                    let tree = empty_directory(label)?;
                    attach(&tree, &fd).at("mask", path)?;
                    empty = Some(tree);
                }
            }
        } else {
            let null = match &null {
                Some(null) => null,
                None => null.insert(null_device()?),
            };
            attach(&clone_tree(null, false).at("mask", path)?, &fd).at("mask", path)?;
        }
    }
    Ok(())
}

/// Each path once, in a stable order: a parent comes before what it hides.
fn unique(paths: &[String]) -> impl Iterator<Item = &str> {
    paths.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter()
}

fn present(root: &OwnedFd, kernel: &Kernel, path: &str) -> Result<Option<OwnedFd>, Failure> {
    match kernel.open(root, path) {
        Ok(fd) => Ok(Some(fd)),
        Err(error) if matches!(error.raw_os_error(), Some(e) if e == Errno::NOENT.raw_os_error() || e == Errno::NOTDIR.raw_os_error()) => {
            Ok(None)
        }
        Err(error) => Err(error).at("open", path),
    }
}

fn empty_directory(label: Option<&str>) -> Result<OwnedFd, Failure> {
    let mut data = vec!["nr_blocks=1".to_owned(), "nr_inodes=1".to_owned(), "mode=755".to_owned()];
    data.extend(label.map(|label| format!("context={label}")));
    let options = Options { set: attr::RDONLY, data, ..Options::default() };
    filesystem::create("tmpfs", Some(Path::new("tmpfs")), &options)
}

/// The host's null device.
fn null_device() -> Result<OwnedFd, Failure> {
    let path = "/dev/null";
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .at("open", path)?;
    let stat = rustix::fs::fstat(&fd).at("look at", path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice || stat.st_rdev != makedev(1, 3) {
        return Err(Failure::refused("mask paths", Some(Path::new(path)), "this is not the null device"));
    }
    Ok(fd)
}
