//! Kernel settings of the node's network namespace that the bridge needs.

use std::fs;
use std::path::PathBuf;

use super::BuiltinError;

fn path(key: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(key)
}

/// Writes a setting unless it has the value already: /proc/sys may be read-only where all is set.
pub(super) fn set(key: &str, value: &str) -> Result<(), BuiltinError> {
    let file = path(key);
    if fs::read_to_string(&file).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    fs::write(&file, value).map_err(|source| BuiltinError::Sysctl { key: key.to_owned(), source })
}

/// Lets the node forward.
pub(super) fn forwarding(ipv4: bool) -> Result<(), BuiltinError> {
    if ipv4 {
        return set("net/ipv4/ip_forward", "1");
    }
    keep_router_advertisements();
    set("net/ipv6/conf/all/forwarding", "1")
}

/// A node that forwards ignores router advertisements, by which many nodes learn their own default route. Those
/// interfaces that listen now shall go on.
fn keep_router_advertisements() {
    let forwarding = fs::read_to_string(path("net/ipv6/conf/all/forwarding"));
    let interfaces = fs::read_dir(path("net/ipv6/conf"));
    let (Ok(now), Ok(interfaces)) = (forwarding, interfaces) else { return };
    if now.trim() != "0" {
        return;
    }
    for interface in interfaces.flatten() {
        let file = interface.path().join("accept_ra");
        if fs::read_to_string(&file).is_ok_and(|v| v.trim() == "1") {
            let kept = fs::write(&file, "2");
            tracing::debug!(file = %file.display(), ok = kept.is_ok(), "keep accepting router advertisements");
        }
    }
}

/// Lets connections to 127.0.0.1 leave through the bridge and no other interface. The table drops what pods send
/// to 127.0.0.0/8.
pub(super) fn route_localnet(bridge: &str) -> Result<(), BuiltinError> {
    set(&format!("net/ipv4/conf/{bridge}/route_localnet"), "1")
}

/// Makes IPv6 usable on an interface that is not up yet: switched on, where the node's default has it off, and
/// without duplicate detection, which would keep even the link-local address, and with it the search for neighbours,
/// back for a second or two.
pub(super) fn ipv6_at_once(interface: &str) -> Result<(), BuiltinError> {
    set(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0")?;
    set(&format!("net/ipv6/conf/{interface}/accept_dad"), "0")
}

/// Keeps an interface that pods can reach from taking routes by router advertisement: any pod could make itself the
/// way out of the node, or of the other pods. Nothing to do on a kernel without IPv6.
pub(super) fn refuse_router_advertisements(interface: &str) -> Result<(), BuiltinError> {
    let key = format!("net/ipv6/conf/{interface}/accept_ra");
    if path(&key).exists() { set(&key, "0") } else { Ok(()) }
}
