//! Image references: `[host[:port]/]path[:tag][@digest]`, with Docker's short forms.

use berth_core::{Classified, ErrorClass};
use berth_snapshot::Digest;
use berth_snapshot::digest::DigestError;
use std::fmt;
use std::str::FromStr;

/// Longest repository name, host and path together, as the registries have it.
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// A checked and normalised reference: `nginx` is `docker.io/library/nginx:latest`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    host: String,
    path: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing was given.
    #[error("the image reference is empty")]
    Empty,
    /// The host part cannot be one.
    #[error("{text:?} is no image reference: {host:?} is no registry host")]
    Host {
        /// The text as given.
        text: String,
        /// The part before the first slash.
        host: String,
    },
    /// The repository part breaks the grammar.
    #[error(
        "{text:?} is no image reference: repository {path:?} must be lower-case letters, digits and single separators (. _ __ -) between slashes"
    )]
    Path {
        /// The text as given.
        text: String,
        /// The repository part.
        path: String,
    },
    /// The tag breaks the grammar.
    #[error(
        "{text:?} is no image reference: tag {tag:?} must be 1 to 128 of A-Z a-z 0-9 _ . - and not begin with . or -"
    )]
    Tag {
        /// The text as given.
        text: String,
        /// The tag.
        tag: String,
    },
    /// The digest breaks the grammar.
    #[error("{text:?} is no image reference")]
    Digest {
        /// The text as given.
        text: String,
        /// What is wrong.
        source: DigestError,
    },
    /// The name is too long for any registry.
    #[error("{text:?} is no image reference: its name is longer than {MAX_NAME} characters")]
    TooLong {
        /// The beginning of the text.
        text: String,
    },
    /// A bare image id, which cannot be pulled.
    #[error("{0:?} is an image id, not a reference; name a repository")]
    Id(String),
}

impl Classified for ReferenceError {
    fn class(&self) -> ErrorClass {
        ErrorClass::InvalidArgument
    }
}

fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}

impl Reference {
    /// Parses and normalises `text`.
    ///
    /// # Errors
    /// Whatever is no reference; the text says which part.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(ReferenceError::Id(text.to_owned()));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(parse_digest(text, digest)?)),
            None => (text, None),
        };
        let (name, tag) = split_tag(rest);
        if let Some(tag) = tag {
            check_tag(text, tag)?;
        }
        let (host, path) = split_host(text, name)?;
        check_path(text, &path)?;
        if host.len() + 1 + path.len() > MAX_NAME {
            return Err(ReferenceError::TooLong { text: shown(text) });
        }
        let tag = tag.map(str::to_owned).or_else(|| digest.is_none().then(|| "latest".to_owned()));
        Ok(Self { host, path, tag, digest })
    }

    /// The registry as written in names, `docker.io` for Docker's.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository at the registry, `library/nginx`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and repository, `docker.io/library/nginx`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }

    /// The tag, unless only a digest was given.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one was given: then it decides and the tag is decoration.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// `name:tag`, as it stands in an image's `repo_tags`; none when a digest decided what was pulled.
    #[must_use]
    pub fn repo_tag(&self) -> Option<String> {
        match (&self.tag, &self.digest) {
            (Some(tag), None) => Some(format!("{}:{tag}", self.name())),
            _ => None,
        }
    }

    /// `name@digest` for the digest that this reference resolved to.
    #[must_use]
    pub fn repo_digest(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.name())
    }

    /// What stands after `/manifests/` in a request: the digest if there is one, else the tag.
    #[must_use]
    pub fn manifest_part(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;
    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::parse(text)
    }
}

fn parse_digest(text: &str, digest: &str) -> Result<Digest, ReferenceError> {
    Digest::parse(digest).map_err(|source| ReferenceError::Digest { text: shown(text), source })
}

/// A colon after the last slash begins a tag; one before it is a port.
fn split_tag(rest: &str) -> (&str, Option<&str>) {
    let after_slash = rest.rfind('/').map_or(0, |at| at + 1);
    match rest.get(after_slash..).and_then(|last| last.find(':')) {
        Some(at) => (&rest[..after_slash + at], Some(&rest[after_slash + at + 1..])),
        None => (rest, None),
    }
}

fn check_tag(text: &str, tag: &str) -> Result<(), ReferenceError> {
    let good = tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if tag.is_empty() || tag.len() > MAX_TAG || tag.starts_with(['.', '-']) || !good {
        return Err(ReferenceError::Tag { text: shown(text), tag: shown(tag) });
    }
    Ok(())
}

/// The first part is a host if it could not be a repository of Docker Hub: it has a dot, a port, capitals, or is
/// localhost.
fn split_host(text: &str, name: &str) -> Result<(String, String), ReferenceError> {
    let (host, path) = match name.split_once('/') {
        Some((first, rest)) if looks_like_host(first) => (first, rest.to_owned()),
        _ => ("docker.io", name.to_owned()),
    };
    if !host_is_good(host) {
        return Err(ReferenceError::Host { text: shown(text), host: shown(host) });
    }
    let host = if host == "index.docker.io" { "docker.io" } else { host };
    if host == "docker.io" && !path.contains('/') {
        return Ok((host.to_owned(), format!("library/{path}")));
    }
    Ok((host.to_owned(), path))
}

fn looks_like_host(first: &str) -> bool {
    first.contains(['.', ':', '[']) || first == "localhost" || first.bytes().any(|b| b.is_ascii_uppercase())
}

fn host_is_good(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
                return port.is_empty() || port.strip_prefix(':').is_some_and(port_is_good);
            }
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let labels = name.split('.').all(|label| {
        let good = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !label.is_empty() && good && !label.starts_with('-') && !label.ends_with('-')
    });
    labels && port.is_none_or(port_is_good)
}

fn port_is_good(port: &str) -> bool {
    port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

fn check_path(text: &str, path: &str) -> Result<(), ReferenceError> {
    if path.split('/').all(component_is_good) {
        return Ok(());
    }
    Err(ReferenceError::Path { text: shown(text), path: shown(path) })
}

/// Runs of letters and digits with one separator between: `.`, `_`, `__` or any number of `-`.
fn component_is_good(component: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_digit() || b.is_ascii_lowercase();
    let bytes = component.as_bytes();
    let ends = bytes.first().is_some_and(alnum) && bytes.last().is_some_and(alnum);
    let runs = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let separators = runs
        .filter(|run| !run.is_empty())
        .all(|run| matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-'));
    ends && separators
}

#[cfg(test)]
#[path = "reference/tests.rs"]
mod tests;
