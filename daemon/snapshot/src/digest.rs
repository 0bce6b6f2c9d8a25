//! Content digests, `sha256:<hex>` or `sha512:<hex>`, parsed strictly because paths and keys are built from them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A hash function a digest may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-256, 64 hex digits.
    Sha256,
    /// SHA-512, 128 hex digits.
    Sha512,
}

impl Algorithm {
    /// Its name in a digest.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// How many hex digits follow the colon.
    #[must_use]
    pub fn hex_len(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A digest that has been checked: known algorithm, right length, lower-case hex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// There is no `algorithm:` in front.
    #[error("digest {0:?} has no algorithm; write sha256:<64 hex digits>")]
    NoAlgorithm(String),
    /// The algorithm is none that Berth computes.
    #[error("digest {0:?} names an unsupported algorithm; sha256 and sha512 are supported")]
    UnknownAlgorithm(String),
    /// Wrong length or characters.
    #[error("digest {text:?} is malformed; {algorithm} needs {want} lower-case hex digits")]
    Malformed {
        /// The text as given.
        text: String,
        /// The algorithm it names.
        algorithm: &'static str,
        /// How many digits it needs.
        want: usize,
    },
}

impl Digest {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// Whatever does not match the grammar.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let shown = || text.chars().take(160).collect::<String>();
        let (name, hex) = text.split_once(':').ok_or_else(|| DigestError::NoAlgorithm(shown()))?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(DigestError::UnknownAlgorithm(shown())),
        };
        let good = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex.len() != algorithm.hex_len() || !good {
            let (text, algorithm, want) = (shown(), algorithm.as_str(), algorithm.hex_len());
            return Err(DigestError::Malformed { text, algorithm, want });
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }

    /// A digest from the raw bytes of a hash. The length decides nothing: the caller says the algorithm.
    ///
    /// # Errors
    /// When the length is not that of the algorithm.
    pub fn from_bytes(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, DigestError> {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(8 + bytes.len() * 2);
        text.push_str(algorithm.as_str());
        text.push(':');
        for byte in bytes {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
        Self::parse(&text)
    }

    /// The hash function.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digits without the algorithm.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The first 12 digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.hex.get(..12).unwrap_or(&self.hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_digests_survive_a_round_trip() {
        for text in [format!("sha256:{}", "0a".repeat(32)), format!("sha512:{}", "f0".repeat(64))] {
            assert_eq!(Digest::parse(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let bad = [
            String::new(),
            "sha256".into(),
            "sha256:".into(),
            format!("md5:{}", "a".repeat(32)),
            format!("sha512:{}", "a".repeat(64)),
            format!("sha256:{}", "A".repeat(64)),
            format!("sha256:{}", "a".repeat(65)),
            format!("sha256:../{}", "a".repeat(61)),
            format!("SHA256:{}", "a".repeat(64)),
        ];
        for text in bad {
            assert!(Digest::parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_become_hex() {
        let digest = Digest::from_bytes(Algorithm::Sha256, &[0xab; 32]).unwrap();
        assert_eq!(digest.hex(), "ab".repeat(32));
        assert!(Digest::from_bytes(Algorithm::Sha512, &[0; 32]).is_err());
    }
}
