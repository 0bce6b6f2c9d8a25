//! The mounts of config.json, in their order, each attached inside the root wherever the rootfs's symbolic links lead.

use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use berth_core::oci::Mount;
use berth_sys::path::{Kind, make_in_root, open_in_root, open_without_links};
use rustix::fs::OFlags;

use super::{bind, cgroupfs, copy_up, filesystem};
use crate::error::{At, Failure};
use crate::options::{self, Options};
use crate::wire::CgroupMounts;

/// One mount with its options parsed and, for a bind that shares with the host, its source already taken.
pub(super) struct Planned {
    pub(super) mount: Mount,
    pub(super) options: Options,
    pub(super) taken: Option<OwnedFd>,
    pub(super) idmap: Option<OwnedFd>,
}

/// What the mounts need to know.
pub(super) struct Place<'a> {
    pub(super) root: &'a OwnedFd,
    pub(super) bundle: &'a Path,
    pub(super) cgroups: &'a CgroupMounts,
    /// Whether the cgroup namespace is the container's own.
    pub(super) own_cgroup_namespace: bool,
    /// `linux.mountLabel`.
    pub(super) label: Option<&'a str>,
}

/// Parses the options of every mount, and takes the sources of those that share with the host, which has to happen while this
/// namespace's mounts are still peers of the host's.
pub(super) fn plan(
    mounts: Vec<Mount>,
    bundle: &Path,
    mut idmaps: Vec<(usize, OwnedFd)>,
) -> Result<Vec<Planned>, Failure> {
    let mut planned = Vec::with_capacity(mounts.len());
    for (index, mount) in mounts.into_iter().enumerate() {
        let mut options = options::parse(mount.options().as_deref().unwrap_or_default());
        if mount.typ().as_deref() == Some("bind") && options.bind.is_none() {
            options.bind = Some(false);
        }
        let taken = if options.bind.is_some() && options.shares() {
            let tree = bind::detach(&bind::source_of(&mount, bundle), &options);
            Some(tree.map_err(|f| about(f, &mount))?)
        } else {
            None
        };
        let idmap = idmaps.iter().position(|(i, _)| *i == index).map(|i| idmaps.swap_remove(i).1);
        planned.push(Planned { mount, options, taken, idmap });
    }
    Ok(planned)
}

/// Takes the source of every bind mount, its owners mapped where that is asked for.
pub(super) fn take_binds(planned: &mut [Planned], bundle: &Path) -> Result<(), Failure> {
    for one in planned.iter_mut().filter(|one| one.options.bind.is_some() && one.taken.is_none()) {
        take_bind(one, bundle).map_err(|f| about(f, &one.mount))?;
    }
    Ok(())
}

fn take_bind(one: &mut Planned, bundle: &Path) -> Result<(), Failure> {
    let tree = bind::detach(&bind::source_of(&one.mount, bundle), &one.options)?;
    if let Some(namespace) = one.idmap.take() {
        let mode = one.options.idmap.unwrap_or(options::IdMap::Single);
        bind::map_owners(&tree, one.mount.destination(), mode, &namespace)?;
    }
    // A copy of one of the host's shared mounts would be its peer.
    let recursive = one.options.bind == Some(true);
    bind::propagate(&tree, berth_sys::mount::Propagation::Slave, recursive)
        .at("cut off", one.mount.destination())?;
    one.taken = Some(tree);
    Ok(())
}

/// What the mounts made of the root file system.
#[derive(Default)]
pub(super) struct Made {
    /// Whether /dev is now a directory of somebody else's, bound there under whatever name leads to it: no devices are made in
    /// that.
    pub(super) foreign_dev: bool,
    /// The mounts at /proc and at /sys. What is to be protected there is reached from these and not by name: whoever else may
    /// write to the root file system could have put another directory there for a moment.
    pub(super) kernel: Kernel,
}

/// The mounts that show the kernel's own files.
#[derive(Default)]
pub(super) struct Kernel {
    proc: Option<OwnedFd>,
    sys: Option<OwnedFd>,
}

impl Kernel {
    /// Opens what is at `path` in the root, from the nearest of these mounts.
    pub(super) fn open(&self, root: &OwnedFd, path: &str) -> std::io::Result<OwnedFd> {
        let path = Path::new(path);
        let below = |mount: &'static str| path.strip_prefix(mount).ok();
        let plain = !path.components().any(|part| part == Component::ParentDir);
        match (&self.proc, below("/proc"), &self.sys, below("/sys")) {
            (Some(proc), Some(rest), ..) if plain => open_in_root(proc, rest, OFlags::PATH),
            (_, _, Some(sys), Some(rest)) if plain => open_in_root(sys, rest, OFlags::PATH),
            _ => open_in_root(root, path, OFlags::PATH),
        }
    }
}

/// Makes every mount.
pub(super) fn make(planned: Vec<Planned>, place: &Place<'_>) -> Result<Made, Failure> {
    let mut made = Made::default();
    // Made first, so that a link of the image's that leads nowhere yet cannot lead into a volume later without being noticed. Where
    // nothing can be made there is nothing to notice either.
    let _ = make_in_root(place.root, Path::new("/dev"), Kind::Directory);
    for mut one in planned {
        let bound = one.options.bind.is_some();
        let (proc, sys) = (is_at(&one.mount, "/proc"), is_at(&one.mount, "/sys"));
        let before = identity(place.root);
        let tree = make_one(&mut one, place).map_err(|f| about(f, &one.mount))?;
        let after = identity(place.root);
        if before != after {
            made.foreign_dev = bound;
        }
        if proc {
            made.kernel.proc = tree;
        } else if sys {
            made.kernel.sys = tree;
        }
    }
    Ok(made)
}

/// What is at /dev now.
fn identity(root: &OwnedFd) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(open(root, "/dev").ok()?).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Makes one mount; gives it where there is a single one.
fn make_one(one: &mut Planned, place: &Place<'_>) -> Result<Option<OwnedFd>, Failure> {
    if one.options.bind.is_some() {
        return make_bind(one, place).map(Some);
    }
    let kind = one.mount.typ().clone().unwrap_or_default();
    match kind.as_str() {
        "cgroup" | "cgroup2" => cgroupfs::make(one, place).map(|()| None),
        "proc" | "sysfs" => {
            let target = plain_target(one, place)?;
            let source = one.mount.source().as_deref().or(Some(Path::new(&kind)));
            let tree = filesystem::create(&kind, source, &one.options)?;
            finish(&tree, &target, one).map(|()| Some(tree))
        }
        "tmpfs" => make_tmpfs(one, place).map(Some),
        _ => {
            let target = target(one, place, Kind::Directory)?.0;
            let options = labelled(one, place);
            let source = one.mount.source().as_deref().or(Some(Path::new(&kind)));
            let tree = filesystem::create(&kind, source, &options)?;
            finish(&tree, &target, one).map(|()| Some(tree))
        }
    }
}

fn make_bind(one: &mut Planned, place: &Place<'_>) -> Result<OwnedFd, Failure> {
    let tree = match one.taken.take() {
        Some(tree) => tree,
        None => bind::detach(&bind::source_of(&one.mount, place.bundle), &one.options)?,
    };
    let kind = bind::kind_of(&tree)?;
    let (target, _) = target_of(&one.mount, place, kind)?;
    if let Some(namespace) = &one.idmap {
        let mode = one.options.idmap.unwrap_or(options::IdMap::Single);
        bind::map_owners(&tree, one.mount.destination(), mode, namespace)?;
    }
    guard(&tree, &target, &one.mount)?;
    bind::finish(&tree, &target, &one.mount, &one.options).map(|()| tree)
}

/// A tmpfs takes the mode of the directory it covers; over a new one, and unless told otherwise, it is open to all (1777).
fn make_tmpfs(one: &mut Planned, place: &Place<'_>) -> Result<OwnedFd, Failure> {
    let (target, made) = target(one, place, Kind::Directory)?;
    let mut options = labelled(one, place);
    if !made && options.value("mode").is_none() {
        let mode = rustix::fs::fstat(&target).at("look at", one.mount.destination())?.st_mode & 0o7777;
        options.data.push(format!("mode={mode:o}"));
    }
    // Filled before it may become read-only.
    let read_only = options.set & berth_sys::mount::attr::RDONLY;
    options.set &= !read_only;
    let source = one.mount.source().as_deref().or(Some(Path::new("tmpfs")));
    let tree = filesystem::create("tmpfs", source, &options)?;
    if options.copy_up && !made {
        copy_up::copy(&target, &tree)?;
    }
    finish(&tree, &target, one).map(|()| tree)
}

/// Applies what creation could not, and attaches.
fn finish(tree: &OwnedFd, target: &OwnedFd, one: &Planned) -> Result<(), Failure> {
    let late = Options {
        // Everything else was given at creation.
        set: one.options.set & berth_sys::mount::attr::RDONLY,
        clear: 0,
        ..one.options.clone()
    };
    guard(tree, target, &one.mount)?;
    bind::finish(tree, target, &one.mount, &late)
}

/// The options with the SELinux mount label added.
fn labelled(one: &Planned, place: &Place<'_>) -> Options {
    let mut options = one.options.clone();
    if let Some(label) = place.label {
        options.data.push(format!("context={label}"));
    }
    options
}

fn target(one: &Planned, place: &Place<'_>, kind: Kind) -> Result<(OwnedFd, bool), Failure> {
    target_of(&one.mount, place, kind)
}

fn target_of(mount: &Mount, place: &Place<'_>, kind: Kind) -> Result<(OwnedFd, bool), Failure> {
    make_in_root(place.root, mount.destination(), kind).at("make mount target", mount.destination())
}

/// proc and sysfs are mounted on real directories only: behind a link of the image's they would be somewhere else than where
/// everybody, labels and masks included, looks for them.
fn plain_target(one: &Planned, place: &Place<'_>) -> Result<OwnedFd, Failure> {
    let destination = one.mount.destination();
    // Made or found, also behind a link that dangled before: what counts is that no link leads there.
    target(one, place, Kind::Directory)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    open_without_links(place.root, destination, flags)
        .at("mount", destination)
        .map_err(|f| f.note("the image has no plain directory there"))
}

/// Files below /proc that may be covered: those that lxcfs and the like show in a version of the container's own.
const COVERED: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/slabinfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys/crypto/fips_enabled",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/uptime",
];

/// Refuses what would pass for the kernel's word: anything over /proc or below it but procfs itself and the files above, anything
/// over /sys but sysfs. Masks, read-only paths and labels would then apply to the copy (CVE-2019-16884, CVE-2019-19921).
fn guard(tree: &OwnedFd, target: &OwnedFd, mount: &Mount) -> Result<(), Failure> {
    const PROC: u64 = 0x9fa0;
    const SYS: u64 = 0x6265_6572;
    let magic = |fd: &OwnedFd| rustix::fs::fstatfs(fd).map_or(0, |s| s.f_type as u64);
    let refused = |what: &str| Err(Failure::refused("mount", Some(mount.destination()), what));
    let covered = COVERED.iter().any(|path| is_at(mount, path));
    let below_proc = is_at(mount, "/proc") || magic(target) == PROC;
    if below_proc && !covered && magic(tree) != PROC {
        return refused("over /proc and in it there is procfs and nothing else");
    }
    if is_at(mount, "/sys") && magic(tree) != SYS {
        return refused("over /sys there is sysfs and nothing else");
    }
    Ok(())
}

/// Whether a mount's destination is `path`, however it is spelt.
pub(super) fn is_at(mount: &Mount, path: &str) -> bool {
    let named = |p: &Path| {
        let mut parts = Vec::new();
        for part in p.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_owned()),
                Component::ParentDir => {
                    parts.pop();
                }
                _ => {}
            }
        }
        parts
    };
    named(mount.destination()) == named(Path::new(path))
}

/// Says which mount a failure was about, and all that was asked of it: EINVAL alone says nothing.
fn about(failure: Failure, mount: &Mount) -> Failure {
    let printable = crate::error::printable;
    let kind = mount.typ().as_deref().unwrap_or("none");
    let source = mount.source().as_deref().map_or_else(|| "none".to_owned(), printable);
    let options = mount.options().as_deref().unwrap_or_default().join(",");
    let place = printable(mount.destination());
    let note = failure.note.as_deref().map_or_else(String::new, |note| format!(": {note}"));
    failure
        .note(format!("for the mount at {place} (type {kind}, source {source}, options {options:?}){note}"))
}

/// Opens what is at `path` in the root.
pub(super) fn open(root: &OwnedFd, path: &str) -> std::io::Result<OwnedFd> {
    open_in_root(root, Path::new(path), OFlags::PATH)
}
