//! `-info`: what the runtime is and can do, asked by containerd before it relies on a feature.

use std::io::{Read, Write};

use berth_proto::containerd::{Any, RuntimeInfo, RuntimeVersion};
use prost::Message;

use super::{About, NAME, V2Error};

/// Features are JSON in an Any of this name.
const FEATURES: &str = "types.containerd.io/opencontainers/runtime-spec/1/features/Features";

/// Options on standard input are read up to here.
const INPUT_MAX: u64 = 1 << 20;

/// Answers on standard output.
pub(super) fn main() -> Result<(), V2Error> {
    let mut input = Vec::new();
    let _none_given = std::io::stdin().take(INPUT_MAX).read_to_end(&mut input);
    let options = Any::decode(&*input).ok().filter(|any| !any.type_url.is_empty());
    let features = crate::oci::features::value()?.to_string();
    let info = RuntimeInfo {
        name: NAME.to_owned(),
        version: Some(RuntimeVersion { version: crate::BUILD.to_owned(), revision: String::new() }),
        options,
        features: Some(Any { type_url: FEATURES.to_owned(), value: features.into_bytes() }),
        annotations: Default::default(),
    };
    std::io::stdout().write_all(&info.encode_to_vec()).about(|| "answer containerd".to_owned())
}
