//! The name of a layer on disk.

use crate::digest::{Digest, DigestError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which layer it is, and whose: a *self-contained* layer needed nothing from below and is shared by every image
/// with the same diffID; a *chained* one was finished against its parents and belongs to that one chain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LayerKey(String);

/// Why a text is no layer key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It has another form.
    #[error("{0:?} is no layer key; it should be diff-<algorithm>-<hex> or chain-<algorithm>-<hex>")]
    Form(String),
    /// The digest in it is bad.
    #[error("layer key {text:?}")]
    Digest {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        source: DigestError,
    },
}

impl LayerKey {
    /// The key of a self-contained layer.
    #[must_use]
    pub fn self_contained(diff_id: &Digest) -> Self {
        Self(format!("diff-{}-{}", diff_id.algorithm().as_str(), diff_id.hex()))
    }

    /// The key of a layer that was finished against the layers below it.
    #[must_use]
    pub fn chained(chain_id: &Digest) -> Self {
        Self(format!("chain-{}-{}", chain_id.algorithm().as_str(), chain_id.hex()))
    }

    /// Parses a key, as read from a directory or a record.
    ///
    /// # Errors
    /// Any other form.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut parts = text.splitn(3, '-');
        let (kind, algorithm, hex) = (parts.next(), parts.next(), parts.next());
        let (Some("diff" | "chain"), Some(algorithm), Some(hex)) = (kind, algorithm, hex) else {
            return Err(KeyError::Form(text.chars().take(160).collect()));
        };
        Digest::parse(&format!("{algorithm}:{hex}"))
            .map_err(|source| KeyError::Digest { text: text.chars().take(160).collect(), source })?;
        Ok(Self(text.to_owned()))
    }

    /// The key as a file name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether every image with this diffID may share it.
    #[must_use]
    pub fn is_self_contained(&self) -> bool {
        self.0.starts_with("diff-")
    }
}

impl fmt::Display for LayerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LayerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for LayerKey {
    type Error = KeyError;
    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::parse(&text)
    }
}

impl From<LayerKey> for String {
    fn from(key: LayerKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_file_names_and_parse_back() {
        let digest = Digest::parse(&format!("sha256:{}", "1".repeat(64))).unwrap();
        for key in [LayerKey::self_contained(&digest), LayerKey::chained(&digest)] {
            assert!(!key.as_str().contains(['/', ':']));
            assert_eq!(LayerKey::parse(key.as_str()).unwrap(), key);
        }
        assert_ne!(LayerKey::self_contained(&digest), LayerKey::chained(&digest));
    }

    #[test]
    fn foreign_names_are_no_keys() {
        for text in ["", "x", "diff-sha256-..", "diff-md5-aa", "lower-sha256-00", "diff-sha256-"] {
            assert!(LayerKey::parse(text).is_err(), "{text}");
        }
    }
}
