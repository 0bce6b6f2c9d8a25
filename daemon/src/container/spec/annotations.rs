//! Annotations of the bundle: who this container is, for whoever looks at it from outside.
//!
//! Nothing of an image or a pod is among them, so whoever reads the bundle may trust them.

use super::super::EnvValue;
use super::Input;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Environment entries that are no UTF-8, which JSON cannot hold: an array of hexadecimal texts.
const ENV_BYTES: &str = "dev.berth.env-bytes";

pub(super) fn annotations(input: &Input<'_>) -> BTreeMap<String, String> {
    let (sandbox, config) = (&input.sandbox.config, input.config);
    let all = [
        ("container-type", "container"),
        ("container-name", config.name.as_str()),
        ("image-name", config.image.image.as_str()),
        ("sandbox-id", input.sandbox.id.as_str()),
        ("sandbox-name", sandbox.name.as_str()),
        ("sandbox-namespace", sandbox.namespace.as_str()),
        ("sandbox-uid", sandbox.uid.as_str()),
    ];
    let plain = all.iter().map(|(key, value)| (format!("io.kubernetes.cri.{key}"), (*value).to_owned()));
    plain.chain(env_bytes(input).map(|value| (ENV_BYTES.to_owned(), value))).collect()
}

fn env_bytes(input: &Input<'_>) -> Option<String> {
    let hex = |(key, value): &(String, EnvValue)| match value {
        EnvValue::Text(_) => None,
        EnvValue::Bytes(bytes) => {
            let mut text = String::new();
            for byte in key.bytes().chain(*b"=").chain(bytes.iter().copied()) {
                // Writing into a String cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            Some(text)
        }
    };
    let all: Vec<String> = input.config.envs.iter().filter_map(hex).collect();
    if all.is_empty() { None } else { serde_json::to_string(&all).ok() }
}
