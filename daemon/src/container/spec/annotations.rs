//! Annotations of the bundle: who this container is, for whoever looks at it from outside.
//!
//! None of them steers anything, and nothing of an image is among them.

use super::Input;
use std::collections::HashMap;

pub(super) fn annotations(input: &Input<'_>) -> HashMap<String, String> {
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
    all.iter().map(|(key, value)| (format!("io.kubernetes.cri.{key}"), (*value).to_owned())).collect()
}
