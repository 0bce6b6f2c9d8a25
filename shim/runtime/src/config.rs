//! config.json: what it must say, checked before anything is made. Every refusal names the place.

mod strict;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use berth_core::oci::{Linux, LinuxNamespaceType, Process, Spec};
use berth_sys::namespace::Namespaces;

use crate::Error;

/// A refusal.
pub(crate) fn refuse(path: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Config { path: path.into(), reason: reason.into() }
}

/// The kind of a namespace in the kernel's bits.
pub(crate) fn kind_of(kind: LinuxNamespaceType) -> Namespaces {
    match kind {
        LinuxNamespaceType::Mount => Namespaces::MOUNT,
        LinuxNamespaceType::Cgroup => Namespaces::CGROUP,
        LinuxNamespaceType::Uts => Namespaces::UTS,
        LinuxNamespaceType::Ipc => Namespaces::IPC,
        LinuxNamespaceType::User => Namespaces::USER,
        LinuxNamespaceType::Pid => Namespaces::PID,
        LinuxNamespaceType::Network => Namespaces::NETWORK,
        LinuxNamespaceType::Time => Namespaces::TIME,
    }
}

/// The name of a namespace's link in /proc/self/ns.
fn link_of(kind: LinuxNamespaceType) -> &'static str {
    match kind {
        LinuxNamespaceType::Mount => "mnt",
        LinuxNamespaceType::Cgroup => "cgroup",
        LinuxNamespaceType::Uts => "uts",
        LinuxNamespaceType::Ipc => "ipc",
        LinuxNamespaceType::User => "user",
        LinuxNamespaceType::Pid => "pid",
        LinuxNamespaceType::Network => "net",
        LinuxNamespaceType::Time => "time",
    }
}

/// Values of the environment are bytes, strings of JSON are not: entries that are no UTF-8 come in this annotation, as a list of
/// hexadecimal strings of `NAME=value`.
const ENV_BYTES: &str = "dev.berth.env-bytes";

/// The entries of [`ENV_BYTES`].
pub(crate) fn env_bytes(spec: &Spec) -> Result<Vec<String>, Error> {
    let Some(text) = spec.annotations().as_ref().and_then(|a| a.get(ENV_BYTES)) else {
        return Ok(Vec::new());
    };
    let place = || format!("annotations[{ENV_BYTES:?}]");
    let list: Vec<String> =
        serde_json::from_str(text).map_err(|e| refuse(place(), format!("is no list of strings: {e}")))?;
    match list.iter().all(|entry| from_hex(entry).is_some_and(|b| b.contains(&b'=') && !b.contains(&0))) {
        true => Ok(list),
        false => Err(refuse(place(), "an entry is not the hexadecimal form of NAME=value")),
    }
}

/// Bytes from their hexadecimal form.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Checks everything that can be known beforehand.
pub(crate) fn check(spec: &Spec, has_overlay: bool) -> Result<(), Error> {
    version(spec.version())?;
    if !has_overlay && spec.root().is_none() {
        return Err(refuse("root", "is missing"));
    }
    let process = spec.process().as_ref().ok_or_else(|| refuse("process", "is missing"))?;
    check_process(process)?;
    strict::check(spec)?;
    let linux = spec.linux().as_ref().ok_or_else(|| refuse("linux", "is missing"))?;
    namespaces(linux)?;
    names(spec, linux)?;
    mappings(linux)?;
    sysctls(linux)?;
    paths(linux.masked_paths().as_deref(), "linux.maskedPaths")?;
    paths(linux.readonly_paths().as_deref(), "linux.readonlyPaths")?;
    if let Some(text) = linux.rootfs_propagation().as_deref().filter(|t| !t.is_empty())
        && crate::options::propagation(text).is_none()
    {
        return Err(refuse("linux.rootfsPropagation", format!("{text:?} is no kind of propagation")));
    }
    Ok(())
}

fn version(version: &str) -> Result<(), Error> {
    match version.split('.').next() {
        Some("1") => Ok(()),
        _ => Err(refuse("ociVersion", format!("{version:?} is not supported, 1.x is"))),
    }
}

/// Checks a process, of a container or of an exec.
pub(crate) fn check_process(process: &Process) -> Result<(), Error> {
    if process.args().as_deref().unwrap_or_default().is_empty() {
        return Err(refuse("process.args", "is empty: there is nothing to run"));
    }
    for (i, text) in process.args().iter().flatten().enumerate() {
        no_nul(text, &format!("process.args[{i}]"))?;
    }
    for (i, text) in process.env().iter().flatten().enumerate() {
        no_nul(text, &format!("process.env[{i}]"))?;
        if !matches!(text.find('='), Some(1..)) {
            return Err(refuse(format!("process.env[{i}]"), format!("{text:?} is not NAME=value")));
        }
    }
    no_nul(&process.cwd().to_string_lossy(), "process.cwd")?;
    if !process.cwd().is_absolute() {
        return Err(refuse("process.cwd", "is not an absolute path"));
    }
    let user = process.user();
    let ids = [user.uid(), user.gid()].into_iter().chain(user.additional_gids().iter().flatten().copied());
    if ids.into_iter().any(|id| id == u32::MAX) {
        return Err(refuse("process.user", "4294967295 stands for no id"));
    }
    for (i, limit) in process.rlimits().iter().flatten().enumerate() {
        if limit.soft() > limit.hard() {
            return Err(refuse(format!("process.rlimits[{i}]"), "the soft limit is above the hard one"));
        }
        let same = |other: &&berth_core::oci::PosixRlimit| other.typ() == limit.typ();
        if process.rlimits().iter().flatten().filter(same).count() > 1 {
            return Err(refuse(format!("process.rlimits[{i}]"), format!("{} is there twice", limit.typ())));
        }
    }
    if process.apparmor_profile().as_deref().is_some_and(|p| !p.is_empty() && p != "unconfined")
        && !crate::init::apparmor_enabled()
    {
        return Err(refuse("process.apparmorProfile", "AppArmor is not enabled on this machine"));
    }
    if process.selinux_label().as_deref().is_some_and(|l| !l.is_empty()) && !crate::init::selinux_enabled() {
        return Err(refuse("process.selinuxLabel", "SELinux is not enabled on this machine"));
    }
    Ok(())
}

fn no_nul(text: &str, path: &str) -> Result<(), Error> {
    if text.contains('\0') { Err(refuse(path, "holds a NUL byte")) } else { Ok(()) }
}

fn namespaces(linux: &Linux) -> Result<(), Error> {
    let mut seen = Namespaces::empty();
    for (i, namespace) in linux.namespaces().iter().flatten().enumerate() {
        let kind = kind_of(namespace.typ());
        if seen.contains(kind) {
            return Err(refuse(format!("linux.namespaces[{i}]"), "this kind is there twice"));
        }
        if let Some(path) = namespace.path() {
            no_nul(&path.to_string_lossy(), &format!("linux.namespaces[{i}].path"))?;
        }
        if namespace.path().as_ref().is_some_and(|p| !p.as_os_str().is_empty() && !p.is_absolute()) {
            return Err(refuse(format!("linux.namespaces[{i}].path"), "is not an absolute path"));
        }
        seen |= kind;
    }
    if !seen.contains(Namespaces::MOUNT) {
        return Err(refuse("linux.namespaces", "a mount namespace is needed"));
    }
    if !seen.contains(Namespaces::TIME) && linux.time_offsets().as_ref().is_some_and(|o| !o.is_empty()) {
        return Err(refuse("linux.timeOffsets", "takes a time namespace"));
    }
    Ok(())
}

fn has(linux: &Linux, kind: LinuxNamespaceType) -> bool {
    linux.namespaces().iter().flatten().any(|n| n.typ() == kind)
}

/// Names of the host are never changed.
fn names(spec: &Spec, linux: &Linux) -> Result<(), Error> {
    for (value, place) in [(spec.hostname(), "hostname"), (spec.domainname(), "domainname")] {
        let Some(value) = value.as_deref().filter(|v| !v.is_empty()) else { continue };
        if !has(linux, LinuxNamespaceType::Uts) {
            return Err(refuse(place, "takes a UTS namespace"));
        }
        no_nul(value, place)?;
        if value.len() > 64 {
            return Err(refuse(place, "is longer than 64 bytes"));
        }
    }
    Ok(())
}

fn mappings(linux: &Linux) -> Result<(), Error> {
    let count = |m: &Option<Vec<_>>| m.as_ref().map_or(0, Vec::len);
    let (users, groups) = (count(linux.uid_mappings()), count(linux.gid_mappings()));
    let user = linux.namespaces().iter().flatten().find(|n| n.typ() == LinuxNamespaceType::User);
    match user {
        None if users + groups > 0 => Err(refuse("linux.uidMappings", "takes a user namespace")),
        Some(_) if users + groups > 0 => {
            strict::mappings(linux.uid_mappings().as_deref(), "linux.uidMappings")?;
            strict::mappings(linux.gid_mappings().as_deref(), "linux.gidMappings")
        }
        Some(n) if n.path().is_none() && (users == 0 || groups == 0) => {
            Err(refuse("linux.uidMappings", "a new user namespace takes mappings of users and of groups"))
        }
        _ => Ok(()),
    }
}

/// Whether the container has a namespace of `kind` that is not this process's own.
pub(crate) fn isolated(linux: &Linux, kind: LinuxNamespaceType) -> bool {
    let Some(namespace) = linux.namespaces().iter().flatten().find(|n| n.typ() == kind) else { return false };
    let Some(path) = namespace.path().as_ref().filter(|p| !p.as_os_str().is_empty()) else { return true };
    let own = std::fs::metadata(Path::new("/proc/self/ns").join(link_of(kind)));
    match (std::fs::metadata(path), own) {
        (Ok(there), Ok(own)) => (there.dev(), there.ino()) != (own.dev(), own.ino()),
        // A path that is not there fails with its own error where it is opened.
        _ => true,
    }
}

/// Only parameters that belong to a namespace of the container's own.
fn sysctls(linux: &Linux) -> Result<(), Error> {
    let mut names: Vec<_> = linux.sysctl().iter().flatten().collect();
    names.sort();
    for (name, value) in names {
        let place = format!("linux.sysctl[{name:?}]");
        if value.contains(['\0', '\n']) || name.contains(['\0', '\n']) {
            return Err(refuse(place, "holds a NUL byte or a line end"));
        }
        let path = crate::init::sysctl_path(name);
        if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(refuse(place, "is no name of a parameter"));
        }
        let kind = match path.as_str() {
            "kernel/domainname" => LinuxNamespaceType::Uts,
            "kernel/hostname" => return Err(refuse(place, "is set by hostname")),
            "kernel/sem" => LinuxNamespaceType::Ipc,
            p if p.starts_with("kernel/shm")
                || p.starts_with("kernel/msg")
                || p.starts_with("fs/mqueue/") =>
            {
                LinuxNamespaceType::Ipc
            }
            p if p.starts_with("net/") => LinuxNamespaceType::Network,
            p if p.starts_with("user/") => LinuxNamespaceType::User,
            _ => return Err(refuse(place, "belongs to the whole machine, not to a namespace")),
        };
        if !isolated(linux, kind) {
            let reason = format!("takes a {} namespace of the container's own", link_of(kind));
            return Err(refuse(place, reason));
        }
    }
    Ok(())
}

fn paths(paths: Option<&[String]>, place: &str) -> Result<(), Error> {
    for (i, path) in paths.unwrap_or_default().iter().enumerate() {
        if !path.starts_with('/') || path.contains('\0') {
            return Err(refuse(format!("{place}[{i}]"), "is not an absolute path"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn base() -> Value {
        json!({
            "ociVersion": "1.3.0",
            "root": {"path": "rootfs"},
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["true"], "env": ["A=1"], "cwd": "/"},
            "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}]}
        })
    }

    fn verdict(change: impl FnOnce(&mut Value)) -> String {
        let mut value = base();
        change(&mut value);
        let spec: Spec = serde_json::from_value(value).expect("parses");
        check(&spec, false).map_or_else(|e| e.to_string(), |()| "ok".into())
    }

    #[test]
    fn a_plain_configuration_passes() {
        assert_eq!(verdict(|_| {}), "ok");
    }

    #[test]
    fn each_refusal_names_its_place() {
        let named =
            |place: &str, text: String| assert!(text.starts_with(&format!("config.json: {place}")), "{text}");
        named("process.args", verdict(|v| v["process"]["args"] = json!([])));
        named("process.args[1]", verdict(|v| v["process"]["args"] = json!(["a", "b\0c"])));
        named("process.env[0]", verdict(|v| v["process"]["env"] = json!(["NOEQ"])));
        named("process.env[0]", verdict(|v| v["process"]["env"] = json!(["=x"])));
        named("process.cwd", verdict(|v| v["process"]["cwd"] = json!("x")));
        named("process.user", verdict(|v| v["process"]["user"]["uid"] = json!(4_294_967_295u32)));
        named("hostname", verdict(|v| v["hostname"] = json!("h")));
        named("linux.namespaces", verdict(|v| v["linux"]["namespaces"] = json!([])));
        named(
            "linux.namespaces[2]",
            verdict(|v| {
                v["linux"]["namespaces"] = json!([{"type": "mount"}, {"type": "pid"}, {"type": "pid"}]);
            }),
        );
        named(
            "linux.uidMappings",
            verdict(|v| {
                v["linux"]["namespaces"] = json!([{"type": "mount"}, {"type": "user"}]);
            }),
        );
        named("linux.maskedPaths[0]", verdict(|v| v["linux"]["maskedPaths"] = json!(["proc"])));
        named("ociVersion", verdict(|v| v["ociVersion"] = json!("2.0.0")));
    }

    #[test]
    fn sysctls_of_the_host_are_refused() {
        for name in
            ["kernel.core_pattern", "net.ipv4.ip_forward", "kernel.shmmax", "kernel.hostname", "net..x"]
        {
            let text = verdict(|v| v["linux"]["sysctl"] = json!({name: "1"}));
            assert!(text.contains("linux.sysctl"), "{name}: {text}");
        }
        let text = verdict(|v| {
            v["linux"]["namespaces"] = json!([{"type": "mount"}, {"type": "ipc"}, {"type": "network"}]);
            v["linux"]["sysctl"] = json!({"kernel.shmmax": "1", "net/ipv4/ip_forward": "1"});
        });
        assert_eq!(text, "ok");
    }

    #[test]
    fn the_hosts_own_namespace_by_path_does_not_count() {
        let text = verdict(|v| {
            v["linux"]["namespaces"] =
                json!([{"type": "mount"}, {"type": "network", "path": "/proc/self/ns/net"}]);
            v["linux"]["sysctl"] = json!({"net.ipv4.ip_forward": "1"});
        });
        assert!(text.contains("container's own"), "{text}");
    }
}
