//! The root file system: attached in this mount namespace, and at the end the only thing in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_sys::mount::{Propagation, clone_tree_at};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountPropagationFlags, UnmountFlags};

use super::overlay;
use crate::args::OverlayPlan;
use crate::error::{At, Failure};

/// Cuts this namespace's mounts off from the host's; what the host mounts later still arrives, unless `private`.
pub(super) fn cut_off(private: bool) -> Result<(), Failure> {
    let kind = if private { MountPropagationFlags::PRIVATE } else { MountPropagationFlags::DOWNSTREAM };
    rustix::mount::mount_change("/", kind | MountPropagationFlags::REC)
        .at("set mount propagation of", "/")?;
    berth_sys::mount::allow_stage();
    Ok(())
}

/// Attaches an overlay made before.
pub(super) fn attach_overlay(plan: &OverlayPlan, mount: OwnedFd) -> Result<OwnedFd, Failure> {
    let place = overlay::place(plan)?;
    berth_sys::mount::attach(&mount, &place).step("attach root file system")?;
    Ok(mount)
}

/// Attaches the root file system; gives its root.
pub(super) fn attach(
    bundle: &Path,
    path: Option<&Path>,
    plan: Option<&OverlayPlan>,
) -> Result<OwnedFd, Failure> {
    if let Some(plan) = plan {
        let place = overlay::place(plan)?;
        return overlay::mount(plan, place.as_fd());
    }
    let path = bundle.join(path.unwrap_or(Path::new("rootfs")));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::open(&path, flags, Mode::empty()).at("open root file system", &path)?;
    let tree = clone_tree_at(&path, true).at("bind root file system", &path)?;
    berth_sys::mount::attach(&tree, &place).at("attach root file system", &path)?;
    // The copy of a shared mount still follows that one: what the host mounts on its directory would come in, with
    // `rootfsPropagation: shared` as well, and nobody asked for that. Volumes are copies of their own.
    super::bind::propagate(&tree, Propagation::Private, false).at("cut off from the host's mounts", &path)?;
    Ok(tree)
}

/// Makes the root file system's own mount read-only.
pub(super) fn read_only(root: &OwnedFd) -> Result<(), Failure> {
    super::bind::read_only(root, false).step("make the root file system read-only")
}

/// Makes `root` the root directory and drops everything else from this namespace.
pub(super) fn enter(root: &OwnedFd, no_pivot: bool) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open("/", flags, Mode::empty()).at("open", "/")?;
    rustix::process::fchdir(root).step("enter the root file system")?;
    if no_pivot {
        rustix::mount::mount_move(".", "/").step("move the root file system")?;
        rustix::process::chroot(".").step("change root")?;
    } else {
        // Both arguments the same: the old root ends up on top of the new one, from where it is unmounted. It is entered by
        // descriptor, since "." is still the new one: what is done to it must not reach the container's own mounts.
        rustix::process::pivot_root(".", ".").step("pivot root")?;
        rustix::process::fchdir(&old).step("enter the old root")?;
        let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        rustix::mount::mount_change(".", slave).step("cut off the old root")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).step("unmount the old root")?;
    }
    rustix::process::chdir("/").step("enter the root file system")
}

/// `linux.rootfsPropagation`, once the root is in place.
pub(super) fn propagate(propagation: Propagation, recursive: bool) -> Result<(), Failure> {
    let mut kind = MountPropagationFlags::from_bits_retain(propagation.bits() as u32);
    kind.set(MountPropagationFlags::REC, recursive);
    // By its name, which is the root directory's: /proc is the container's now and not to be trusted with descriptors.
    rustix::mount::mount_change("/", kind).step("set the propagation of the root file system")
}
