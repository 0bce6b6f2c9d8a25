//! Which build of a multi-platform image fits this node.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Operating system, architecture and variant, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64`, …
    pub architecture: String,
    /// `v8`, `v7`, …; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

impl Platform {
    /// A platform in Go's words.
    #[must_use]
    pub fn new(os: &str, architecture: &str, variant: &str) -> Self {
        Self { os: os.to_owned(), architecture: architecture.to_owned(), variant: variant.to_owned() }
    }

    /// The one this program was built for.
    #[must_use]
    pub fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", "v7"),
            "x86" => ("386", ""),
            "powerpc64" if cfg!(target_endian = "little") => ("ppc64le", ""),
            other => (other, ""),
        };
        Self::new("linux", architecture, variant)
    }

    /// How well an image for `other` fits here: higher is better, `None` does not run.
    #[must_use]
    pub fn fitness(&self, other: &Self) -> Option<u32> {
        let (mine, theirs) = (self.normal(), other.normal());
        if mine.os != theirs.os || mine.architecture != theirs.architecture {
            return None;
        }
        if mine.variant == theirs.variant {
            return Some(1000);
        }
        let level = |variant: &str| variant.strip_prefix('v').and_then(|n| n.parse::<u32>().ok());
        match (level(&mine.variant), level(&theirs.variant)) {
            // An older variant of the same architecture runs on a newer machine.
            (Some(mine), Some(theirs)) if theirs < mine => Some(theirs),
            _ => None,
        }
    }

    fn normal(&self) -> Self {
        let variant = match (self.architecture.as_str(), self.variant.as_str()) {
            ("arm64", "") => "v8",
            ("arm", "") => "v7",
            ("amd64", "") => "v1",
            (_, variant) => variant,
        };
        Self { variant: variant.to_owned(), ..self.clone() }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_fit_downwards() {
        let v7 = Platform::new("linux", "arm", "v7");
        assert!(v7.fitness(&Platform::new("linux", "arm", "v6")).is_some());
        assert!(
            v7.fitness(&Platform::new("linux", "arm", "v6")) < v7.fitness(&Platform::new("linux", "arm", ""))
        );
        assert_eq!(Platform::new("linux", "arm", "v6").fitness(&v7), None);
        assert_eq!(v7.fitness(&Platform::new("linux", "arm64", "")), None);
        assert_eq!(v7.fitness(&Platform::new("windows", "arm", "v7")), None);
    }

    #[test]
    fn an_unsaid_variant_is_the_usual_one() {
        let arm = Platform::new("linux", "arm64", "v8");
        assert_eq!(arm.fitness(&Platform::new("linux", "arm64", "")), Some(1000));
        let amd = Platform::new("linux", "amd64", "");
        assert_eq!(amd.fitness(&Platform::new("linux", "amd64", "v3")), None);
    }
}
