//! Checks that types alone cannot make.

use crate::section::{BuiltinNetwork, Config};
use std::net::IpAddr;
use std::path::Path;

/// A value that does not fit, and what would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration key `{key}`: {why}")]
pub struct ValidateError {
    /// The key's full name.
    pub key: &'static str,
    /// What is wrong and what would be right.
    pub why: String,
}

/// Longest path of a unix socket.
const SUN_PATH: usize = 107;
/// Longest name of a network interface.
const IFNAME: usize = 15;

/// Checks the whole configuration.
///
/// # Errors
/// The first value that does not fit.
pub fn validate(config: &Config) -> Result<(), ValidateError> {
    absolute("root", &config.root)?;
    absolute("state", &config.state)?;
    apart(&config.root, &config.state)?;
    socket(config)?;
    absolute("image.certs_dir", &config.image.certs_dir)?;
    absolute("network.cni.conf_dir", &config.network.cni.conf_dir)?;
    config.network.cni.bin_dirs.iter().try_for_each(|dir| absolute("network.cni.bin_dirs", dir))?;
    // Longer than a kubelet waits for a pod would be waiting for nobody.
    within("network.cni.plugin_seconds", config.network.cni.plugin_seconds, 240)?;
    if config.runtime.shim != Path::new("") {
        absolute("runtime.shim", &config.runtime.shim)?;
    }
    within("image.max_parallel_layers", config.image.max_parallel_layers, 64)?;
    within("grpc.max_expensive", config.grpc.max_expensive, 4096)?;
    within("grpc.max_cheap", config.grpc.max_cheap, 65536)?;
    builtin(&config.network.builtin)
}

fn wrong(key: &'static str, why: impl Into<String>) -> ValidateError {
    ValidateError { key, why: why.into() }
}

fn absolute(key: &'static str, path: &Path) -> Result<(), ValidateError> {
    let dots = path.components().any(|part| matches!(part, std::path::Component::ParentDir));
    if path.is_absolute() && !dots {
        return Ok(());
    }
    Err(wrong(key, format!("{path:?} must be an absolute path without `..`")))
}

/// Root and state are emptied by different rules, so neither may lie in the other.
fn apart(root: &Path, state: &Path) -> Result<(), ValidateError> {
    if root.starts_with(state) || state.starts_with(root) {
        return Err(wrong("state", format!("{state:?} and root {root:?} must not lie in each other")));
    }
    Ok(())
}

fn socket(config: &Config) -> Result<(), ValidateError> {
    let path = config.socket();
    absolute("grpc.socket", &path)?;
    let len = path.as_os_str().len();
    if len > SUN_PATH {
        return Err(wrong(
            "grpc.socket",
            format!("{path:?} has {len} bytes, a unix socket's path at most {SUN_PATH}"),
        ));
    }
    Ok(())
}

fn within<N>(key: &'static str, value: N, most: N) -> Result<(), ValidateError>
where
    N: PartialOrd + From<u8> + std::fmt::Display,
{
    if value >= N::from(1) && value <= most {
        Ok(())
    } else {
        Err(wrong(key, format!("{value} is not between 1 and {most}")))
    }
}

fn builtin(network: &BuiltinNetwork) -> Result<(), ValidateError> {
    let name = network.bridge.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/' && *byte != b':';
    if name.is_empty() || name.len() > IFNAME || !name.iter().all(plain) || [&b"."[..], b".."].contains(&name)
    {
        let why = format!(
            "{:?} is no interface name: 1 to {IFNAME} characters, no blank, `/` or `:`",
            network.bridge
        );
        return Err(wrong("network.builtin.bridge", why));
    }
    if network.subnets.is_empty() {
        return Err(wrong(
            "network.builtin.subnets",
            "at least one subnet is needed, for example \"10.88.0.0/16\"",
        ));
    }
    network.subnets.iter().try_for_each(|text| subnet(text))
}

fn subnet(text: &str) -> Result<(), ValidateError> {
    let bad = |why: &str| wrong("network.builtin.subnets", format!("{text:?} {why}"));
    let (address, length) =
        text.split_once('/').ok_or_else(|| bad("has no prefix length, as in 10.88.0.0/16"))?;
    let address: IpAddr = address.parse().map_err(|_| bad("is no IP subnet"))?;
    let length: u32 = length.parse().map_err(|_| bad("has no prefix length, as in 10.88.0.0/16"))?;
    let (bits, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    if length == 0 || length > width - 2 {
        return Err(bad("leaves no room for a bridge and a pod"));
    }
    let host_mask = (1u128 << (width - length)) - 1;
    if bits & host_mask != 0 { Err(bad("has bits set beyond its prefix")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(change: impl FnOnce(&mut Config)) -> &'static str {
        let mut config = Config::default();
        change(&mut config);
        validate(&config).unwrap_err().key
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(validate(&Config::default()), Ok(()));
    }

    #[test]
    fn each_wrong_value_is_refused_by_its_key() {
        assert_eq!(key_of(|c| c.root = "rel".into()), "root");
        assert_eq!(key_of(|c| c.root = "/a/../b".into()), "root");
        assert_eq!(key_of(|c| c.state = "/var/lib/berth/state".into()), "state");
        assert_eq!(key_of(|c| c.grpc.socket = format!("/{}", "s".repeat(120)).into()), "grpc.socket");
        assert_eq!(key_of(|c| c.image.max_parallel_layers = 0), "image.max_parallel_layers");
        assert_eq!(key_of(|c| c.network.cni.plugin_seconds = 0), "network.cni.plugin_seconds");
        assert_eq!(key_of(|c| c.network.cni.bin_dirs = vec!["bin".into()]), "network.cni.bin_dirs");
        for name in ["", "a-name-of-16-char", "a b", "a/b", "."] {
            assert_eq!(
                key_of(|c| c.network.builtin.bridge = name.into()),
                "network.builtin.bridge",
                "{name:?}"
            );
        }
        for net in ["", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/31", "10.0.0.0/x", "fd00::1/64", "0.0.0.0/0"] {
            assert_eq!(
                key_of(|c| c.network.builtin.subnets = vec![net.into()]),
                "network.builtin.subnets",
                "{net:?}"
            );
        }
        assert_eq!(key_of(|c| c.network.builtin.subnets.clear()), "network.builtin.subnets");
    }

    #[test]
    fn both_families_are_taken() {
        let mut config = Config::default();
        config.network.builtin.subnets = vec!["10.1.0.0/16".into(), "fd00:1::/64".into()];
        assert_eq!(validate(&config), Ok(()));
    }
}
