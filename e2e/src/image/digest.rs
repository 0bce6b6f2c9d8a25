//! sha256 in the form that OCI writes.

use ring::digest::{SHA256, digest};
use std::fmt::Write;

/// `sha256:<64 hex>` of some bytes.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(digest(&SHA256, bytes).as_ref()))
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
