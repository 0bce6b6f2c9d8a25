//! Versions of the CNI specification and what came with each.

use std::fmt;

/// The versions known here, oldest first.
const KNOWN: [(u8, u8, u8); 7] =
    [(0, 1, 0), (0, 2, 0), (0, 3, 0), (0, 3, 1), (0, 4, 0), (1, 0, 0), (1, 1, 0)];

/// A version that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u8, u8, u8);

impl Default for Version {
    /// What a configuration without a version means.
    fn default() -> Self {
        Self(0, 1, 0)
    }
}

impl Version {
    /// Parses a version; none if it is not known.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse::<u8>().ok());
        let (a, b, c) = (parts.next()??, parts.next()??, parts.next()??);
        (parts.next().is_none() && KNOWN.contains(&(a, b, c))).then_some(Self(a, b, c))
    }

    /// Results list interfaces and addresses; before, there was one address per family.
    pub(super) fn has_lists(self) -> bool {
        self >= Self(0, 3, 0)
    }

    /// Plugins know CHECK, and DEL gets the result of ADD.
    pub(super) fn has_check(self) -> bool {
        self >= Self(0, 4, 0)
    }

    /// An address tells its family by a field.
    pub(super) fn marks_family(self) -> bool {
        self < Self(1, 0, 0)
    }

    /// Plugins know STATUS and GC.
    pub(super) fn has_status(self) -> bool {
        self >= Self(1, 1, 0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_are_versions() {
        for text in ["", "1", "1.1", "1.1.0.0", "1.2.0", "1.1.x", "v1.1.0", "-1.1.0"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        let all: Vec<_> = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
            .map(|text| Version::parse(text).unwrap())
            .into();
        assert!(all.is_sorted());
        assert!(all[6].has_status() && !all[5].has_status() && all[4].has_check() && !all[3].has_check());
    }
}
