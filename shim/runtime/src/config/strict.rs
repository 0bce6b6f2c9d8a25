//! What a kernel would cut off, pass over or misunderstand without a word: bytes, places, mappings, hooks, features that
//! are not there.

use std::path::{Component, Path};

use berth_core::oci::{Hook, LinuxIdMapping, Mount, Spec};

use super::{no_nul, refuse};
use crate::Error;

/// Checks the parts of a configuration that are neither process nor namespaces.
pub(super) fn check(spec: &Spec) -> Result<(), Error> {
    if let Some(root) = spec.root() {
        path(root.path(), "root.path")?;
    }
    for (i, mount) in spec.mounts().iter().flatten().enumerate() {
        mount_at(mount, i)?;
    }
    hooks(spec)?;
    let Some(linux) = spec.linux() else { return Ok(()) };
    for (i, device) in linux.devices().iter().flatten().enumerate() {
        path(device.path(), &format!("linux.devices[{i}].path"))?;
    }
    if linux.mount_label().as_deref().is_some_and(|l| !l.is_empty()) && !crate::init::selinux_enabled() {
        return Err(refuse("linux.mountLabel", "SELinux is not enabled on this machine"));
    }
    linux.intel_rdt().as_ref().map_or(Ok(()), crate::rdt::check)?;
    crate::netdevice::check(linux)
}

/// A path of any kind: there, and without NUL.
fn path(path: &Path, place: &str) -> Result<(), Error> {
    if path.as_os_str().is_empty() {
        return Err(refuse(place, "is empty"));
    }
    no_nul(&path.to_string_lossy(), place)
}

fn mount_at(mount: &Mount, i: usize) -> Result<(), Error> {
    let place = |field: &str| format!("mounts[{i}].{field}");
    path(mount.destination(), &place("destination"))?;
    if is_root(mount.destination()) {
        return Err(refuse(place("destination"), "is the root itself"));
    }
    if let Some(source) = mount.source() {
        no_nul(&source.to_string_lossy(), &place("source"))?;
    }
    for (j, option) in mount.options().iter().flatten().enumerate() {
        no_nul(option, &place(&format!("options[{j}]")))?;
    }
    let bind = mount.typ().as_deref() == Some("bind")
        || mount.options().iter().flatten().any(|option| option == "bind" || option == "rbind");
    for (list, field) in [(mount.uid_mappings(), "uidMappings"), (mount.gid_mappings(), "gidMappings")] {
        if list.as_ref().is_some_and(|list| !list.is_empty()) && !bind {
            return Err(refuse(place(field), "only bind mounts can map their owners"));
        }
        mappings(list.as_deref(), &place(field))?;
    }
    Ok(())
}

/// Whether a destination means the root, however it is spelt.
fn is_root(destination: &Path) -> bool {
    let depth = destination.components().fold(0usize, |depth, part| match part {
        Component::Normal(_) => depth + 1,
        Component::ParentDir => depth.saturating_sub(1),
        _ => depth,
    });
    depth == 0
}

/// Each mapping maps something, and none meets another on either side.
pub(super) fn mappings(list: Option<&[LinuxIdMapping]>, place: &str) -> Result<(), Error> {
    let list = list.unwrap_or_default();
    for (i, one) in list.iter().enumerate() {
        let fits = |start: u32| start.checked_add(one.size()).is_some();
        if one.size() == 0 || !fits(one.container_id()) || !fits(one.host_id()) {
            return Err(refuse(format!("{place}[{i}]"), format!("{} is no number of ids here", one.size())));
        }
        let meets =
            |a: u32, b: u32, size: u32| a < b.saturating_add(size) && b < a.saturating_add(one.size());
        for other in &list[..i] {
            if meets(one.container_id(), other.container_id(), other.size())
                || meets(one.host_id(), other.host_id(), other.size())
            {
                return Err(refuse(format!("{place}[{i}]"), "overlaps with one before it"));
            }
        }
    }
    Ok(())
}

fn hooks(spec: &Spec) -> Result<(), Error> {
    let Some(hooks) = spec.hooks() else { return Ok(()) };
    let lists: [(&str, &Option<Vec<Hook>>); 6] = [
        ("prestart", hooks.prestart()),
        ("createRuntime", hooks.create_runtime()),
        ("createContainer", hooks.create_container()),
        ("startContainer", hooks.start_container()),
        ("poststart", hooks.poststart()),
        ("poststop", hooks.poststop()),
    ];
    for (kind, list) in lists {
        for (i, hook) in list.iter().flatten().enumerate() {
            let place = format!("hooks.{kind}[{i}]");
            path(hook.path(), &format!("{place}.path"))?;
            if !hook.path().is_absolute() {
                return Err(refuse(format!("{place}.path"), "is not an absolute path"));
            }
            if hook.timeout().is_some_and(|seconds| seconds <= 0) {
                return Err(refuse(format!("{place}.timeout"), "is not greater than zero"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_many_names() {
        for name in ["/", "//", ".", "/a/..", "/../.."] {
            assert!(is_root(Path::new(name)), "{name}");
        }
        assert!(!is_root(Path::new("/a/../b")) && !is_root(Path::new("a")));
    }

    #[test]
    fn mappings_must_not_meet() {
        let list = |numbers: &[(u32, u32, u32)]| {
            let one = |(inside, host, size): &(u32, u32, u32)| serde_json::json!({"containerID": inside, "hostID": host, "size": size});
            let value: serde_json::Value = numbers.iter().map(one).collect();
            serde_json::from_value::<Vec<LinuxIdMapping>>(value).expect("mappings")
        };
        assert!(mappings(Some(&list(&[(0, 1000, 10), (10, 2000, 10)])), "m").is_ok());
        for bad in
            [&[(0, 0, 0)][..], &[(0, 5, 10), (9, 100, 1)], &[(0, 5, 10), (20, 14, 1)], &[(u32::MAX, 0, 2)]]
        {
            assert!(mappings(Some(&list(bad)), "m").is_err(), "{bad:?}");
        }
    }
}
