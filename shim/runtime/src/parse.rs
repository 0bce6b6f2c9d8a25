//! What comes from outside, read by pure functions of the bytes: for whoever wants to try a great many of them.

use berth_core::oci::{LinuxSeccomp, Spec};

use crate::seccomp::Program;

/// Reads and checks a config.json, as create does before it makes anything.
///
/// # Errors
/// The reason why create would refuse it.
pub fn spec(text: &[u8]) -> Result<Spec, String> {
    let spec: Spec = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    crate::config::check(&spec, false).map_err(|e| e.to_string())?;
    crate::config::env_bytes(&spec).map_err(|e| e.to_string())?;
    Ok(spec)
}

/// The options of a mount, sorted into what the kernel wants where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// `bind` (false) or `rbind` (true).
    pub bind: Option<bool>,
    /// `MOUNT_ATTR_*` of the mount itself: set, cleared.
    pub own: (u64, u64),
    /// And of everything below it too.
    pub recursive: (u64, u64),
    /// How many kinds of propagation are asked for.
    pub propagation: usize,
    /// What the file system's own parser gets.
    pub data: Vec<String>,
}

/// Sorts the options of a mount.
pub fn mount_options(options: &[String]) -> MountOptions {
    let sorted = crate::options::parse(options);
    MountOptions {
        bind: sorted.bind,
        own: (sorted.set, sorted.clear),
        recursive: (sorted.recursive_set, sorted.recursive_clear),
        propagation: sorted.propagation.len(),
        data: sorted.data,
    }
}

/// Reads a seccomp profile (`linux.seccomp`) and compiles it.
///
/// # Errors
/// JSON that is no profile, or one that cannot be expressed.
pub fn seccomp(text: &[u8]) -> Result<Program, String> {
    let profile: LinuxSeccomp = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    crate::seccomp::compile(&profile).map_err(|e| e.to_string())
}
