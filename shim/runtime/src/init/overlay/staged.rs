//! An overlay of detached mounts where overlayfs takes them by name only (before Linux 6.13): names lead to mounts that are
//! attached somewhere, so for a moment they are, on a tmpfs that goes again with all that is in it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use berth_sys::mount::{attach, clone_tree};
use rustix::fs::{Mode, OFlags};
use rustix::mount::UnmountFlags;

use super::{Layers, by_names};
use crate::error::{At, Failure};
use crate::init::filesystem;
use crate::options::Options;

/// Mounts the layers, detached; for the while, `target` is covered.
pub(super) fn mount(layers: &Layers, options: &[String], target: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let stage = filesystem::create(
        "tmpfs",
        None,
        &Options { data: vec!["mode=0700".to_owned()], ..Options::default() },
    )?;
    attach(&stage, target).step("attach a stage for the layers")?;
    let mounted = on(&stage, layers, options);
    // Nothing else refers to it, and what was made of the layers has copies of its own.
    let place = format!("/proc/self/fd/{}", stage.as_raw_fd());
    let gone = rustix::mount::unmount(place, UnmountFlags::DETACH).step("unmount the stage of the layers");
    mounted.and_then(|mount| gone.map(|()| mount))
}

fn on(stage: &OwnedFd, layers: &Layers, options: &[String]) -> Result<OwnedFd, Failure> {
    for (number, layer) in layers.lower.iter().enumerate() {
        attach(layer, directory(stage, &number.to_string())?).step("attach a layer to the stage")?;
    }
    let merged = directory(stage, "merged")?;
    let mount = by_names(layers, options, std::os::fd::AsFd::as_fd(&merged))?;
    clone_tree(&mount, false).step("detach the overlay from the stage")
}

fn directory(stage: &OwnedFd, name: &str) -> Result<OwnedFd, Failure> {
    rustix::fs::mkdirat(stage, name, Mode::RWXU).step("make a directory on the stage")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(stage, name, flags, Mode::empty()).step("open a directory on the stage")
}
