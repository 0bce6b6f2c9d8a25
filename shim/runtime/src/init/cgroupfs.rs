//! cgroup mounts: the container's own group as the root, of every v1 hierarchy or of the unified tree.

use std::os::fd::OwnedFd;
use std::path::Path;

use berth_sys::mount::{attr, clone_tree_at};
use berth_sys::path::{Kind, make_in_root};

use super::bind;
use super::filesystem;
use super::mounts::{Place, Planned};
use crate::error::{At, Failure};
use crate::options::Options;

/// What a cgroup mount always has.
const FIXED: u64 = attr::NOSUID | attr::NODEV | attr::NOEXEC;

pub(super) fn make(one: &Planned, place: &Place<'_>) -> Result<(), Failure> {
    let destination = one.mount.destination();
    let (target, _) =
        make_in_root(place.root, destination, Kind::Directory).at("make mount target", destination)?;
    let v1 = &place.cgroups.v1;
    let only_v2 = one.mount.typ().as_deref() == Some("cgroup2") || v1.is_empty();
    if only_v2 {
        let tree = unified(one, place)?;
        return bind::finish(&tree, &target, &one.mount, &bare(&one.options));
    }
    v1_set(one, place, &target)
}

fn unified(one: &Planned, place: &Place<'_>) -> Result<OwnedFd, Failure> {
    let Some(group) = place.cgroups.unified.as_deref() else {
        let note = "the container has no group in a unified tree";
        return Err(Failure::refused("mount", Some(one.mount.destination()), note));
    };
    let tree = match place.own_cgroup_namespace {
        true => filesystem::create("cgroup2", Some(Path::new("cgroup")), &bare(&one.options)),
        false => clone_tree_at(group, false).at("bind", group),
    };
    // A new cgroup2 mount is refused to a user namespace that owns no cgroup namespace.
    match tree {
        Err(_) => clone_tree_at(group, false).at("bind", group),
        Ok(tree) => Ok(tree),
    }
}

/// The mount's own attributes, without options that mean nothing to a cgroup file system.
fn bare(options: &Options) -> Options {
    Options { set: options.set | FIXED, data: Vec::new(), flags: Vec::new(), ..options.clone() }
}

/// A tmpfs with one directory per hierarchy, and a link for every other name of it.
fn v1_set(one: &Planned, place: &Place<'_>, target: &OwnedFd) -> Result<(), Failure> {
    let destination = one.mount.destination();
    let top = Options { set: FIXED, data: vec!["mode=755".into()], ..Options::default() };
    let tmpfs = filesystem::create("tmpfs", Some(Path::new("tmpfs")), &top)?;
    berth_sys::mount::attach(&tmpfs, target).at("mount", destination)?;
    for (mount_point, controllers, group) in &place.cgroups.v1 {
        let Some(name) = mount_point.file_name() else { continue };
        let name = Path::new(name);
        let (directory, _) = make_in_root(&tmpfs, name, Kind::Directory).at("make cgroup directory", name)?;
        let tree = hierarchy(controllers, group, place)?;
        bind::finish(&tree, &directory, &one.mount, &bare(&one.options))?;
        for controller in controllers {
            let alias = Path::new(controller.trim_start_matches("name="));
            if alias != name {
                match rustix::fs::symlinkat(name, &tmpfs, alias) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(errno) => return Err(errno).at("make link", alias),
                }
            }
        }
    }
    if one.options.set & attr::RDONLY != 0 {
        bind::read_only(&tmpfs, false).at("make read-only", destination)?;
    }
    Ok(())
}

fn hierarchy(controllers: &[String], group: &Path, place: &Place<'_>) -> Result<OwnedFd, Failure> {
    if !place.own_cgroup_namespace {
        return clone_tree_at(group, false).at("bind", group);
    }
    let mut data: Vec<String> = controllers.to_vec();
    if controllers.iter().all(|c| c.starts_with("name=")) {
        data.insert(0, "none".into());
    }
    let options = Options { set: FIXED, data, ..Options::default() };
    filesystem::create("cgroup", Some(Path::new("cgroup")), &options)
}
