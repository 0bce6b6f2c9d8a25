//! New file systems by the mount API: tmpfs, proc, sysfs, mqueue, devpts and whatever else the kernel knows by name.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_sys::mount::attr;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::error::Failure;
use crate::options::Options;

/// What fsmount takes of a mount's attributes.
const AT_CREATION: u64 = attr::RDONLY
    | attr::NOSUID
    | attr::NODEV
    | attr::NOEXEC
    | attr::ATIME
    | attr::NODIRATIME
    | attr::NOSYMFOLLOW;

/// Hands `key=value` and `key` options to a file system context; gives back the one that was refused.
pub(super) fn configure(fs: &OwnedFd, options: &[String]) -> Result<(), (String, io::Error)> {
    for option in options {
        let outcome = match option.split_once('=') {
            Some((key, value)) => rustix::mount::fsconfig_set_string(fs, key, value),
            None => rustix::mount::fsconfig_set_flag(fs, option.as_str()),
        };
        outcome.map_err(|errno| (option.clone(), errno.into()))?;
    }
    Ok(())
}

/// A detached mount of a new `kind`.
pub(super) fn create(kind: &str, source: Option<&Path>, options: &Options) -> Result<OwnedFd, Failure> {
    let subject = Path::new(kind);
    let fail = |step: &str, e: io::Error| Failure::new(step, Some(subject), &e);
    let fs = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|e| fail("open file system", e.into()))?;
    if let Some(source) = source {
        rustix::mount::fsconfig_set_string(&fs, "source", source)
            .map_err(|e| explain("configure file system", Some(subject), &fs, e.into()))?;
    }
    for flag in &options.flags {
        rustix::mount::fsconfig_set_flag(&fs, *flag)
            .map_err(|e| explain("configure file system", Some(subject), &fs, e.into()))?;
    }
    configure(&fs, &options.data).map_err(|(option, e)| {
        explain("configure file system", Some(subject), &fs, e).note(format!("option {option}"))
    })?;
    rustix::mount::fsconfig_create(&fs)
        .map_err(|e| explain("create file system", Some(subject), &fs, e.into()))?;
    // Bits beyond what rustix names (nosymfollow) are the kernel's business.
    let attributes = MountAttrFlags::from_bits_retain((options.set & AT_CREATION) as u32);
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(|e| fail("mount file system", e.into()))
}

/// Adds what the file system itself says about the failure, readable from its context.
pub(super) fn explain(step: &str, subject: Option<&Path>, fs: impl AsFd, error: io::Error) -> Failure {
    let failure = Failure::new(step, subject, &error);
    let mut text = [0; 512];
    let mut notes = Vec::new();
    while let Ok(n @ 1..) = rustix::io::read(&fs, &mut text) {
        let line = String::from_utf8_lossy(&text[..n]);
        notes.push(line.trim_start_matches(|c: char| c.is_ascii_lowercase()).trim().to_owned());
        if notes.len() == 8 {
            break;
        }
    }
    if notes.is_empty() { failure } else { failure.note(notes.join("; ")) }
}
