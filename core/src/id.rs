//! Ids of sandboxes and containers: 64 lower-case hex digits, each kind a type of its own.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Length of a full id in characters.
pub const LEN: usize = 64;

/// Length of the short form, for socket and scope names and for people.
pub const SHORT: usize = 12;

/// Why a text is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Wrong length or a character that is not a lower-case hex digit.
    #[error("{0:?} is not an id: expected 64 lower-case hex digits")]
    Malformed(String),
    /// The kernel gave no random bytes.
    #[error("no random bytes from the kernel: {0}")]
    Random(std::io::ErrorKind),
}

/// Why a text (an id or its beginning) names no single object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nothing begins with it.
    #[error("{0:?} is not known")]
    Unknown(String),
    /// More than one id begins with it.
    #[error("{0:?} is the beginning of more than one id: give more digits")]
    Ambiguous(String),
}

impl crate::Classified for IdError {
    fn class(&self) -> crate::ErrorClass {
        match self {
            Self::Malformed(_) => crate::ErrorClass::InvalidArgument,
            Self::Random(_) => crate::ErrorClass::Internal,
        }
    }
}

impl crate::Classified for LookupError {
    fn class(&self) -> crate::ErrorClass {
        match self {
            Self::Unknown(_) => crate::ErrorClass::NotFound,
            Self::Ambiguous(_) => crate::ErrorClass::InvalidArgument,
        }
    }
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn parse(text: &str) -> Result<[u8; LEN], IdError> {
    let malformed = || IdError::Malformed(text.chars().take(80).collect());
    let bytes: [u8; LEN] = text.as_bytes().try_into().map_err(|_| malformed())?;
    if bytes.iter().copied().all(is_hex) { Ok(bytes) } else { Err(malformed()) }
}

fn generate() -> Result<[u8; LEN], IdError> {
    let mut raw = [0u8; LEN / 2];
    fill(&mut raw)?;
    let mut hex = [0u8; LEN];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(raw) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    Ok(hex)
}

fn digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

fn fill(mut rest: &mut [u8]) -> Result<(), IdError> {
    while !rest.is_empty() {
        let got = match rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(got) => got,
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(IdError::Random(errno.kind())),
        };
        rest = &mut rest[got..];
    }
    Ok(())
}

/// The one id among `known` that `text` is, or is the beginning of. A full id wins over a prefix.
///
/// # Errors
/// Unknown, or the beginning of several.
pub fn lookup<T: Copy + AsRef<str>>(
    text: &str,
    known: impl IntoIterator<Item = T>,
) -> Result<T, LookupError> {
    let unknown = || LookupError::Unknown(text.chars().take(80).collect());
    if text.is_empty() {
        return Err(unknown());
    }
    let mut found = None;
    for id in known {
        if id.as_ref() == text {
            return Ok(id);
        }
        if id.as_ref().starts_with(text) {
            if found.is_some() {
                return Err(LookupError::Ambiguous(text.to_owned()));
            }
            found = Some(id);
        }
    }
    found.ok_or_else(unknown)
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; LEN]);

        impl $name {
            /// A new random id.
            ///
            /// # Errors
            /// The kernel has no random bytes to give.
            pub fn generate() -> Result<Self, IdError> {
                generate().map(Self)
            }

            /// Reads a full id.
            ///
            /// # Errors
            /// Not 64 lower-case hex digits.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                parse(text).map(Self)
            }

            /// All 64 digits.
            #[must_use]
            pub fn as_str(&self) -> &str {
                std::str::from_utf8(&self.0).unwrap_or_default()
            }

            /// The first 12 digits.
            #[must_use]
            pub fn short(&self) -> &str {
                self.as_str().get(..SHORT).unwrap_or_default()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

id_type! {
    /// A pod sandbox's id.
    SandboxId
}
id_type! {
    /// A container's id.
    ContainerId
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ContainerId {
        ContainerId::parse(&format!("{text:0<64}")).unwrap()
    }

    #[test]
    fn generated_ids_are_well_formed_and_differ() {
        let (a, b) = (SandboxId::generate().unwrap(), SandboxId::generate().unwrap());
        assert_ne!(a, b);
        assert_eq!(SandboxId::parse(a.as_str()).unwrap(), a);
        assert_eq!(a.short(), &a.as_str()[..12]);
    }

    #[test]
    fn only_64_lower_case_hex_digits_are_an_id() {
        for bad in ["", "abc", &"A".repeat(64), &"g".repeat(64), &"a".repeat(65), &"é".repeat(32), "../../x"]
        {
            assert!(SandboxId::parse(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_unique_beginning_finds_its_id() {
        let known = [id("ab"), id("ab1"), id("cd")];
        assert_eq!(lookup("c", known), Ok(known[2]));
        assert_eq!(lookup(known[0].as_str(), known), Ok(known[0]));
        assert!(matches!(lookup("ab", known), Err(LookupError::Ambiguous(_))));
        assert!(matches!(lookup("ee", known), Err(LookupError::Unknown(_))));
        assert!(matches!(lookup("", known), Err(LookupError::Unknown(_))));
    }

    #[test]
    fn json_form_is_the_text_and_is_checked() {
        let text = format!("\"{}\"", id("ab"));
        assert_eq!(serde_json::from_str::<ContainerId>(&text).unwrap(), id("ab"));
        assert_eq!(serde_json::to_string(&id("ab")).unwrap(), text);
        assert!(serde_json::from_str::<ContainerId>("\"ab\"").is_err());
    }
}
