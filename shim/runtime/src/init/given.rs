//! A root file system that a caller describes as a list of mounts, made in this process's own mount namespace.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use berth_core::oci::Mount;
use berth_sys::mount::{Change, set_attributes};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::args::OverlayPlan;
use crate::error::{At, Error, Failure};
use crate::options::{self, IdMap, Options};

mod owners;

/// So many mounts may lie over one another at a place before something is very wrong.
const STACKED_MAX: usize = 64;

/// Older kernels take the layers of an overlay by names relative to the working directory, which all threads share.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootMount {
    /// `overlay`, `bind`, or another file system the kernel knows.
    pub kind: String,
    /// A device or directory.
    pub source: String,
    /// Where, inside the root; empty for the root itself.
    pub target: String,
    /// As in /etc/fstab.
    pub options: Vec<String>,
}

/// Mounts a list over `root`; `exe` answers to `init`. On failure nothing stays mounted there.
///
/// # Errors
/// The mount that failed.
pub fn mount_root(mounts: &[RootMount], root: &Path, exe: BorrowedFd<'_>) -> Result<(), Error> {
    for mount in mounts {
        if let Err(failure) = one(mount, root, exe) {
            // The first error is the one to tell.
            let _ = unmount_root(root);
            return Err(failure.into());
        }
    }
    Ok(())
}

/// Takes everything away that is mounted at `root`. Nothing there is a success.
///
/// # Errors
/// A mount that cannot be taken away.
pub fn unmount_root(root: &Path) -> Result<(), Error> {
    for _ in 0..STACKED_MAX {
        match rustix::mount::unmount(root, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Not a mount point (any more), or not there at all.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno).at("unmount", root).map_err(Error::from),
        }
    }
    Ok(())
}

fn one(mount: &RootMount, root: &Path, exe: BorrowedFd<'_>) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty()).at("open", root)?;
    let inside = mount.target.trim_matches('/');
    let target = match inside {
        "" => root,
        inside => berth_sys::path::open_in_root(&root, Path::new(inside), OFlags::PATH)
            .at("open in the root file system", inside)?,
    };
    let mut options = options::parse(&mount.options);
    let map = owners::take(&mut options, exe)?;
    match mount.kind.as_str() {
        "overlay" => overlay(&target, &options, map.as_ref()),
        kind if kind == "bind" || options.bind.is_some() => bind(mount, &target, options, map.as_ref()),
        kind => {
            let source = Some(Path::new(&mount.source)).filter(|source| !source.as_os_str().is_empty());
            let tree = super::filesystem::create(kind, source, &options)?;
            if let Some(map) = &map {
                super::bind::map_owners(&tree, Path::new(kind), IdMap::Single, map)?;
            }
            berth_sys::mount::attach(&tree, &target).at("mount", kind)
        }
    }
}

fn bind(
    mount: &RootMount,
    target: &OwnedFd,
    mut options: Options,
    map: Option<&OwnedFd>,
) -> Result<(), Failure> {
    options.bind = Some(options.bind.unwrap_or(true));
    let source = Path::new(&mount.source);
    let tree = super::bind::detach(source, &options)?;
    if let Some(map) = map {
        let mode = if options.bind == Some(true) { IdMap::Recursive } else { IdMap::Single };
        super::bind::map_owners(&tree, source, mode, map)?;
    }
    let shown = Mount { destination: Path::new("/").join(&mount.target), ..Mount::default() };
    super::bind::finish(&tree, target, &shown, &options)
}

fn overlay(target: &OwnedFd, options: &Options, map: Option<&OwnedFd>) -> Result<(), Failure> {
    let plan = plan(options)?;
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let tree = match map {
        Some(map) => super::overlay::mount_mapped(&plan, map, target.as_fd())?,
        None => super::overlay::mount(&plan, target.as_fd())?,
    };
    if options.set != 0 {
        let change = Change { set: options.set, clear: options.clear, ..Change::default() };
        set_attributes(&tree, &change, false).step("set mount options of the root file system")?;
    }
    Ok(())
}

/// The layers of an overlay's options.
fn plan(options: &Options) -> Result<OverlayPlan, Failure> {
    let path = |key| options.value(key).map(PathBuf::from);
    let lower = options.value("lowerdir").unwrap_or_default();
    let plan = OverlayPlan {
        lower: split(lower).into_iter().map(PathBuf::from).collect(),
        upper: path("upperdir"),
        work: path("workdir"),
        options: options.data.iter().filter(|option| !names_a_layer(option)).cloned().collect(),
    };
    match plan.lower.is_empty() {
        true => Err(Failure::refused("mount overlay", None, "its options name no lowerdir")),
        false => Ok(plan),
    }
}

fn names_a_layer(option: &str) -> bool {
    ["lowerdir=", "upperdir=", "workdir="].iter().any(|key| option.starts_with(key))
}

/// Directories between colons; a backslash keeps the next character from meaning anything.
fn split(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            ':' if !escaped => out.push(String::new()),
            c => {
                escaped = false;
                if let Some(last) = out.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    out.retain(|layer| !layer.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_is_read_from_its_options() {
        let words = ["index=off", "workdir=/w", "upperdir=/u", "lowerdir=/a:/b\\:c:/d", "ro"];
        let parsed = options::parse(&words.map(str::to_owned));
        let plan = plan(&parsed).unwrap();
        assert_eq!(plan.lower, ["/a", "/b:c", "/d"].map(PathBuf::from));
        assert_eq!((plan.upper, plan.work), (Some("/u".into()), Some("/w".into())));
        assert_eq!(plan.options, ["index=off"]);
        assert!(super::plan(&options::parse(&["upperdir=/u".to_owned()])).is_err());
    }
}
