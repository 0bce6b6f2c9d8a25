//! `features`: what this runtime can do on this machine. Nothing that is not true.

use std::ffi::OsString;

use berth_runtime::known;
use serde_json::{Value, json};

use super::state::print_json;
use super::{OciError, flags};

pub(crate) fn main(args: Vec<OsString>) -> Result<(), OciError> {
    flags::parse(&[], args)?.at_most(0)?;
    print_json(&value()?)
}

/// The same, for a caller that does not read standard output.
pub(crate) fn value() -> Result<Value, OciError> {
    let hierarchies = berth_cgroup::Hierarchies::discover()?;
    let idmap =
        berth_sys::mount::missing_call().is_none() && !berth_sys::lacks(berth_sys::Call::MountSetattr);
    let v2 = hierarchies.unified_mount().is_some();
    Ok(json!({
        "ociVersionMin": "1.0.0",
        "ociVersionMax": berth_runtime::hooks::OCI_VERSION,
        "hooks": ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"],
        "mountOptions": known::mount_options(),
        "linux": {
            "namespaces": ["cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"],
            "capabilities": known::capabilities(),
            "cgroup": {
                "v1": !hierarchies.v1_mounts().is_empty(),
                "v2": v2,
                "systemd": true,
                "systemdUser": false,
                "rdma": true
            },
            "seccomp": known::seccomp(),
            "apparmor": {"enabled": true},
            "selinux": {"enabled": true},
            "intelRdt": {"enabled": true, "schemata": true, "monitoring": true},
            "memoryPolicy": {},
            "netDevices": {"enabled": true},
            "mountExtensions": {"idmap": {"enabled": idmap}}
        },
        "annotations": {
            "dev.berth.version": crate::BUILD,
            "dev.berth.missing": berth_sys::missing().join("; ")
        }
    }))
}
