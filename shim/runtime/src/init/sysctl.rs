//! Kernel parameters, written through a proc file system of our own that nothing in the container can cover or redirect.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{At, Failure};

/// The path below /proc/sys of a parameter written with dots or with slashes.
pub(crate) fn path_of(name: &str) -> String {
    match name.find(['.', '/']).map(|i| name.as_bytes()[i]) {
        // With dots as separators a slash stands for a dot, as in net.ipv4.conf.eth0/1.forwarding.
        Some(b'.') => name
            .chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// Writes every parameter, in the order of their names.
pub(super) fn set(proc: &OwnedFd, values: &BTreeMap<String, String>) -> Result<(), Failure> {
    for (name, value) in values {
        let path = format!("sys/{}", path_of(name));
        let file = berth_sys::path::open_beneath(proc, Path::new(&path), OFlags::WRONLY, false)
            .at("set sysctl", Path::new(name))?;
        rustix::io::write(&file, value.as_bytes())
            .at("set sysctl", Path::new(name))
            .map_err(|f| f.note(format!("value {value:?}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn both_spellings_lead_to_the_same_file() {
        assert_eq!(path_of("net.ipv4.ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path_of("net/ipv4/ip_forward"), "net/ipv4/ip_forward");
        assert_eq!(path_of("net.ipv4.conf.eth0/1.forwarding"), "net/ipv4/conf/eth0.1/forwarding");
    }
}
