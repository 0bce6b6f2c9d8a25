//! The root file system from layers: one overlay mount, made where it will be used.

use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use berth_sys::mount::{Change, attr, clone_tree, set_attributes};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags};

use crate::args::OverlayPlan;
use crate::error::{At, Failure};

mod staged;

/// mount(2) copies one page of options and drops the rest without a word, so longer ones are refused here.
const PAGE: usize = 4095;

/// The directories of a plan, opened.
struct Layers {
    lower: Vec<OwnedFd>,
    upper: Option<(OwnedFd, OwnedFd)>,
}

/// Mounts the plan, detached where the kernel can, else over `target`; gives the root of the mount.
pub(super) fn mount(plan: &OverlayPlan, target: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let layers = open(plan)?;
    if let (None, [only]) = (&layers.upper, layers.lower.as_slice()) {
        // overlayfs refuses a single layer with nothing above it; a read-only view of it is the same thing.
        let tree = berth_sys::mount::clone_tree(only, false).step("bind the only layer")?;
        berth_sys::mount::attach(&tree, target).step("attach the root file system")?;
        super::bind::read_only(&tree, false).step("make the only layer read-only")?;
        return Ok(tree);
    }
    if berth_sys::mount::missing_call().is_some() {
        return by_names(&layers, &plan.options, target);
    }
    let mount = match by_descriptors(&layers, &plan.options) {
        Ok(mount) => mount,
        Err(failure) if takes_no_descriptors(&failure) => {
            return by_names(&layers, &plan.options, target)
                .map_err(|f| if f.errno.is_some() { failure } else { f });
        }
        Err(failure) => return Err(failure),
    };
    berth_sys::mount::attach(&mount, target).step("attach the root file system")?;
    Ok(mount)
}

/// Mounts the plan, detached, with the owners of the lower layers mapped through `map`. What is written goes to disk with the
/// mapped ids, so the upper directory becomes the mapped root's.
pub(super) fn mapped(
    plan: &OverlayPlan,
    map: &OwnedFd,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<OwnedFd, Failure> {
    let layers = map_layers(plan, map)?;
    if let (None, [only]) = (&layers.upper, layers.lower.as_slice()) {
        super::bind::read_only(only, false).step("make the only layer read-only")?;
        return only.try_clone().step("copy a descriptor");
    }
    for path in plan.upper.iter().chain(&plan.work) {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(CWD, path, uid, gid, AtFlags::empty()).at("give away", path)?;
    }
    by_descriptors(&layers, &plan.options)
        .map_err(|f| f.note("an overlay of id-mapped layers takes Linux 6.13"))
}

/// Mounts the plan over `target` with the owners of the lower layers mapped through `map`; whoever made the upper directory has
/// seen to its owner.
pub(super) fn mount_mapped(
    plan: &OverlayPlan,
    map: &OwnedFd,
    target: BorrowedFd<'_>,
) -> Result<OwnedFd, Failure> {
    let layers = map_layers(plan, map)?;
    let mount = match (&layers.upper, layers.lower.as_slice()) {
        (None, [only]) => {
            super::bind::read_only(only, false).step("make the only layer read-only")?;
            only.try_clone().step("copy a descriptor")?
        }
        _ => match by_descriptors(&layers, &plan.options) {
            Err(failure) if takes_no_descriptors(&failure) => {
                staged::mount(&layers, &plan.options, target).map_err(|f| f.note(failure.to_string()))?
            }
            other => other?,
        },
    };
    berth_sys::mount::attach(&mount, target).step("attach the root file system")?;
    Ok(mount)
}

/// The layers opened, each lower one as a detached mount with its owners mapped.
fn map_layers(plan: &OverlayPlan, map: &OwnedFd) -> Result<Layers, Failure> {
    super::bind::mappable().step("map the owners of the layers")?;
    let mut layers = open(plan)?;
    let change = Change { set: attr::IDMAP, user_namespace: Some(map.as_fd()), ..Change::default() };
    for (fd, path) in layers.lower.iter_mut().zip(&plan.lower) {
        let tree = clone_tree(&*fd, false).at("bind layer", path)?;
        set_attributes(&tree, &change, false)
            .at("map the owners of layer", path)
            .map_err(|f| f.note("its file system has to support id-mapped mounts"))?;
        *fd = tree;
    }
    Ok(layers)
}

/// Before Linux 6.13 layers cannot be given as descriptors; before 6.5 overlayfs takes none by the new calls at all.
fn takes_no_descriptors(failure: &Failure) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP].iter().any(|errno| failure.errno == Some(errno.raw_os_error()))
}

/// The directory that the overlay is attached over: one that nothing else in this namespace has to be reached through.
pub(super) fn place(plan: &OverlayPlan) -> Result<OwnedFd, Failure> {
    let path = plan.work.as_ref().or(plan.lower.first());
    let path = path.ok_or_else(|| Failure::refused("mount overlay", None, "there are no layers"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).at("open layer", path)
}

fn open(plan: &OverlayPlan) -> Result<Layers, Failure> {
    let directory = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .at("open layer", path)
    };
    let lower = plan.lower.iter().map(|path| directory(path)).collect::<Result<Vec<_>, _>>()?;
    let upper = match (&plan.upper, &plan.work) {
        (Some(upper), Some(work)) => Some((directory(upper)?, directory(work)?)),
        _ => None,
    };
    Ok(Layers { lower, upper })
}

fn by_descriptors(layers: &Layers, options: &[String]) -> Result<OwnedFd, Failure> {
    let fs =
        rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).at("open file system", "overlay")?;
    let set = |key: &str, fd: &OwnedFd| {
        rustix::mount::fsconfig_set_fd(&fs, key, fd)
            .map_err(io::Error::from)
            .map_err(|e| Failure::new("configure overlay", Some(Path::new(key)), &e))
    };
    for lower in &layers.lower {
        set("lowerdir+", lower)?;
    }
    if let Some((upper, work)) = &layers.upper {
        set("upperdir", upper)?;
        set("workdir", work)?;
    }
    super::filesystem::configure(&fs, options)
        .map_err(|(key, e)| Failure::new("configure overlay", Some(Path::new(&key)), &e))?;
    rustix::mount::fsconfig_create(&fs)
        .map_err(|e| super::filesystem::explain("create overlay", None, &fs, e.into()))?;
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).step("mount overlay")
}

/// The old way: the layers are named by their descriptor numbers, relative to /proc/self/fd, so that many fit in a page.
fn by_names(layers: &Layers, options: &[String], target: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let mut text = String::from("lowerdir=");
    for (i, lower) in layers.lower.iter().enumerate() {
        let separator = if i == 0 { "" } else { ":" };
        let _ = write!(text, "{separator}{}", lower.as_raw_fd());
    }
    if let Some((upper, work)) = &layers.upper {
        let _ = write!(text, ",upperdir={},workdir={}", upper.as_raw_fd(), work.as_raw_fd());
    }
    for option in options {
        let _ = write!(text, ",{option}");
    }
    if text.len() > PAGE {
        let note = format!("{} bytes of layer names, the kernel takes {PAGE}", text.len());
        return Err(Failure::refused("mount overlay", None, note));
    }
    let back = rustix::fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).step("open directory")?;
    rustix::process::chdir("/proc/self/fd").at("change directory", "/proc/self/fd")?;
    let data = std::ffi::CString::new(text).map_err(io::Error::from).step("mount overlay")?;
    let place = format!("/proc/self/fd/{}", target.as_raw_fd());
    let mounted =
        rustix::mount::mount("overlay", &place, "overlay", MountFlags::empty(), Some(data.as_c_str()));
    rustix::process::fchdir(&back).step("change directory")?;
    mounted.step("mount overlay")?;
    // The descriptor shows what was there before; the magic link's text leads to what is mounted now.
    let path = rustix::fs::readlink(&place, Vec::new()).step("find the root file system")?;
    let root = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    root.step("open the root file system")
}
