//! New file systems by the mount API: tmpfs, proc, sysfs, mqueue, devpts and whatever else the kernel knows by name.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use berth_sys::mount::attr;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags};

use crate::error::{At, Failure};
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

/// A detached mount of a new `kind`; one on the stage where the newer calls are missing.
pub(super) fn create(kind: &str, source: Option<&Path>, options: &Options) -> Result<OwnedFd, Failure> {
    let subject = Path::new(kind);
    if berth_sys::mount::missing_call().is_some() {
        return on_stage(kind, source, options);
    }
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

/// The same by mount(2), which takes one text of options for all.
fn on_stage(kind: &str, source: Option<&Path>, options: &Options) -> Result<OwnedFd, Failure> {
    let subject = Path::new(kind);
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from).at("mount file system", subject);
    let source = source.unwrap_or(subject);
    let (name, source) =
        (text(kind.as_bytes())?, text(std::os::unix::ffi::OsStrExt::as_bytes(source.as_os_str()))?);
    let data = text(joined(kind, &options.data)?.as_bytes())?;
    let tree = berth_sys::mount::create_on_stage(&name, &source, flags_of(options), &data)
        .at("mount file system", subject)
        // Which of them was refused only fsconfig could say.
        .map_err(|f| f.note(format!("options {:?}", options.data.join(","))))?;
    // Read-only is the mount and not the file system, which others may have mounted as well.
    if options.set & attr::RDONLY != 0 {
        super::bind::read_only(&tree, false).at("make read-only", subject)?;
    }
    Ok(tree)
}

fn flags_of(options: &Options) -> MountFlags {
    const BITS: [(u64, MountFlags); 6] = [
        (attr::NOSUID, MountFlags::NOSUID),
        (attr::NODEV, MountFlags::NODEV),
        (attr::NOEXEC, MountFlags::NOEXEC),
        (attr::NODIRATIME, MountFlags::NODIRATIME),
        (attr::NOATIME, MountFlags::NOATIME),
        (attr::STRICTATIME, MountFlags::STRICTATIME),
    ];
    const NOSYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);
    let named = options.flags.iter().map(|flag| match *flag {
        "sync" => MountFlags::SYNCHRONOUS,
        "dirsync" => MountFlags::DIRSYNC,
        "lazytime" => MountFlags::LAZYTIME,
        _ => MountFlags::PERMIT_MANDATORY_FILE_LOCKING,
    });
    let bits = BITS.iter().chain([&(attr::NOSYMFOLLOW, NOSYMFOLLOW)]);
    let set = bits.filter(|(bit, _)| options.set & bit != 0).map(|(_, flag)| *flag);
    named.chain(set).fold(MountFlags::empty(), |all, flag| all | flag)
}

/// One text; what would become several options in it is quoted where that is known to work, or refused.
fn joined(kind: &str, options: &[String]) -> Result<String, Failure> {
    /// mount(2) copies one page and drops the rest without a word.
    const PAGE: usize = 4095;
    let refused = |note: String| Err(Failure::refused("mount file system", Some(Path::new(kind)), note));
    let mut parts = Vec::new();
    for option in options {
        match option.split_once('=') {
            Some(("context", label)) if !label.contains('"') => parts.push(format!("context=\"{label}\"")),
            _ if option.contains(',') => {
                return refused(format!(
                    "option {option} has a comma, which takes fsconfig: it is missing here"
                ));
            }
            _ => parts.push(option.clone()),
        }
    }
    let text = parts.join(",");
    match text.len() <= PAGE {
        true => Ok(text),
        false => refused(format!("{} bytes of options, the kernel takes {PAGE}", text.len())),
    }
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
