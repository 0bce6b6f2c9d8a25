//! AppArmor profiles and SELinux labels, written to /proc/self/attr on a proc file system of our own.

use std::os::fd::OwnedFd;
use std::path::Path;

use berth_core::oci::Process;
use rustix::fs::OFlags;

use crate::error::{At, Failure};

/// Whether this kernel enforces AppArmor.
pub(crate) fn apparmor_enabled() -> bool {
    std::fs::read("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.starts_with(b"Y"))
}

/// Whether this kernel enforces SELinux.
pub(crate) fn selinux_enabled() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}

/// Sets what the next execve takes on.
pub(super) fn apply(proc: &OwnedFd, process: &Process) -> Result<(), Failure> {
    if let Some(profile) =
        process.apparmor_profile().as_deref().filter(|p| !p.is_empty() && *p != "unconfined")
    {
        let text = format!("exec {profile}");
        write(proc, &["self/attr/apparmor/exec", "self/attr/exec"], &text)
            .at("set AppArmor profile", Path::new(profile))?;
    }
    if let Some(label) = process.selinux_label().as_deref().filter(|l| !l.is_empty()) {
        write(proc, &["self/attr/exec"], label).at("set SELinux label", Path::new(label))?;
    }
    Ok(())
}

fn write(proc: &OwnedFd, paths: &[&str], text: &str) -> std::io::Result<()> {
    let mut last = Err(rustix::io::Errno::NOENT.into());
    for path in paths {
        match berth_sys::path::open_beneath(proc, Path::new(path), OFlags::WRONLY, true) {
            Ok(file) => return Ok(rustix::io::write(&file, text.as_bytes()).map(drop)?),
            Err(error) => last = Err(error),
        }
    }
    last
}
