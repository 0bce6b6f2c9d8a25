//! Manifests: from a reference to the configuration and layers of one platform's image.

use super::error::{Fault, RegistryError};
use super::http::{Failed, body};
use super::session::{Capability, Place, Session};
use crate::platform::Platform;
use crate::reference::Reference;
use berth_core::{Classified, ErrorClass, KubeletWord};
use berth_snapshot::Digest;
use berth_snapshot::digest::Algorithm;
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;

/// Largest manifest or index.
pub const MAX_MANIFEST: usize = 4 << 20;
/// Most layers an image may have: the kernel's limit of an overlay.
const MAX_LAYERS: usize = berth_snapshot::overlay::MAX_LAYERS;

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A manifest that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It could not be had.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// It is not what its media type says.
    #[error("{what} is no usable manifest: {why}")]
    Bad {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
    /// Berth does not know this kind of document or layer.
    #[error("{what} has the unsupported media type {media_type:?}{hint}")]
    MediaType {
        /// Which.
        what: String,
        /// The type.
        media_type: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// There is no image for this node.
    #[error("{what} has no image for {wanted}; it has {}", if found.is_empty() { "none at all" } else { found })]
    Platform {
        /// Which.
        what: String,
        /// This node.
        wanted: String,
        /// What there is.
        found: String,
    },
}

impl Classified for ManifestError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Registry(error) => error.class(),
            Self::Platform { .. } => ErrorClass::NotFound,
            Self::Bad { .. } | Self::MediaType { .. } => ErrorClass::FailedPrecondition,
        }
    }

    fn word(&self) -> Option<KubeletWord> {
        match self {
            Self::Registry(error) => error.word(),
            _ => None,
        }
    }
}

/// A piece of content as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    #[serde(default)]
    pub media_type: String,
    /// Its digest, checked.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
    /// For which platform, in an index.
    #[serde(default)]
    platform: Option<RawPlatform>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct RawPlatform {
    os: String,
    architecture: String,
    variant: String,
}

impl RawPlatform {
    fn platform(&self) -> Platform {
        Platform::new(&self.os, &self.architecture, &self.variant)
    }
}

/// The manifest of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Where the reference led: digest of the index, or of the manifest if there is no index.
    pub resolved: Digest,
    /// The configuration.
    pub config: Descriptor,
    /// Layers, bottom first.
    pub layers: Vec<Descriptor>,
    /// Who answered.
    pub endpoint: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<u64>,
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    #[serde(rename = "fsLayers")]
    fs_layers: Option<serde::de::IgnoredAny>,
}

struct Fetched {
    bytes: Bytes,
    media_type: String,
    digest: Digest,
    endpoint: String,
}

/// Resolves `reference` to the manifest for `platform`.
///
/// # Errors
/// Nothing there, nothing for this platform, or a bad document.
pub async fn resolve(
    session: &Session,
    reference: &Reference,
    platform: &Platform,
) -> Result<Manifest, ManifestError> {
    let what = reference.to_string();
    let capability = if reference.digest().is_some() { Capability::Pull } else { Capability::Resolve };
    let part = reference.manifest_part();
    let top = fetch(session, &what, &part, reference.digest(), capability).await?;
    let (resolved, endpoint) = (top.digest.clone(), top.endpoint.clone());
    let document = parse(&what, &top)?;
    let Some(manifests) = document.manifests else { return manifest(&what, document, resolved, endpoint) };
    let chosen = choose(&what, &manifests, platform)?;
    let what = format!("{what} for {platform}");
    let one =
        fetch(session, &what, &chosen.digest.to_string(), Some(&chosen.digest), Capability::Pull).await?;
    let document = parse(&what, &one)?;
    if document.manifests.is_some() {
        return Err(ManifestError::Bad { what, why: "the index leads to another index".into() });
    }
    manifest(&what, document, resolved, endpoint)
}

async fn fetch(
    session: &Session,
    what: &str,
    part: &str,
    digest: Option<&Digest>,
    capability: Capability,
) -> Result<Fetched, RegistryError> {
    let name = format!("manifest of {what}");
    session.anywhere(&name, None, capability, |place| one(session, place, part, digest)).await
}

async fn one(
    session: &Session,
    place: &Place,
    part: &str,
    wanted: Option<&Digest>,
) -> Result<Fetched, Failed> {
    let mut headers = HeaderMap::new();
    for kind in [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST] {
        headers.append(ACCEPT, HeaderValue::from_static(kind));
    }
    let response = session.get(place, &format!("manifests/{part}"), headers).await?;
    let text =
        |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (media_type, told) = (text(CONTENT_TYPE.as_str()), text("docker-content-digest"));
    let bytes = body(response, MAX_MANIFEST).await?;
    // The header is a hint that may be missing; what counts is computed.
    let told = told.as_deref().and_then(|told| Digest::parse(told).ok());
    let wanted = wanted.cloned().or(told);
    let algorithm = wanted.as_ref().map_or(Algorithm::Sha256, Digest::algorithm);
    let digest = digest_of(algorithm, &bytes);
    if let Some(wanted) = wanted
        && wanted != digest
    {
        let reason = format!("the manifest has digest {digest}, not {wanted}");
        return Err(Failed::new(Fault::Mismatch, reason));
    }
    let media_type = media_type.map(|text| essence(&text)).unwrap_or_default();
    Ok(Fetched { bytes, media_type, digest, endpoint: place.endpoint.to_string() })
}

/// The digest of bytes in memory.
#[must_use]
pub fn digest_of(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let function = match algorithm {
        Algorithm::Sha256 => &ring::digest::SHA256,
        Algorithm::Sha512 => &ring::digest::SHA512,
    };
    let hash = ring::digest::digest(function, bytes);
    match Digest::from_bytes(algorithm, hash.as_ref()) {
        Ok(digest) => digest,
        Err(error) => unreachable!("a hash of its own algorithm has the right length: {error}"),
    }
}

/// A media type without its parameters.
fn essence(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn parse(what: &str, fetched: &Fetched) -> Result<Document, ManifestError> {
    let bad = |why: String| ManifestError::Bad { what: what.to_owned(), why };
    let document: Document =
        serde_json::from_slice(&fetched.bytes).map_err(|error| bad(error.to_string()))?;
    let inside = essence(&document.media_type);
    let known = |kind: &str| matches!(kind, OCI_INDEX | DOCKER_LIST | OCI_MANIFEST | DOCKER_MANIFEST);
    let unsupported = |media_type: &str, hint| {
        Err(ManifestError::MediaType { what: what.to_owned(), media_type: media_type.to_owned(), hint })
    };
    if document.fs_layers.is_some() || document.schema_version == Some(1) {
        return unsupported(&fetched.media_type, "; schema 1 manifests are obsolete, push the image again");
    }
    if !inside.is_empty() && !known(&inside) {
        return unsupported(&inside, "");
    }
    // Some registries serve everything as JSON or as bytes: then the document itself must say what it is.
    let vague = matches!(
        fetched.media_type.as_str(),
        "" | "application/json" | "application/octet-stream" | "text/plain"
    );
    if !vague && !known(&fetched.media_type) {
        return unsupported(&fetched.media_type, "");
    }
    if !vague && !inside.is_empty() && inside != fetched.media_type {
        return Err(bad(format!("it is served as {} and calls itself {inside}", fetched.media_type)));
    }
    if document.manifests.is_some() && (document.layers.is_some() || document.config.is_some()) {
        return Err(bad("it has both layers and manifests".into()));
    }
    let kind = if vague { inside } else { fetched.media_type.clone() };
    let index = matches!(kind.as_str(), OCI_INDEX | DOCKER_LIST);
    if !kind.is_empty() && index != document.manifests.is_some() {
        return Err(bad(format!("its contents do not fit {kind}")));
    }
    Ok(document)
}

fn choose<'a>(
    what: &str,
    manifests: &'a [Descriptor],
    platform: &Platform,
) -> Result<&'a Descriptor, ManifestError> {
    let fitness = |one: &Descriptor| match &one.platform {
        Some(raw) => platform.fitness(&raw.platform()),
        // An index of one unlabelled image: its configuration will be checked.
        None => (manifests.len() == 1).then_some(0),
    };
    let mut best: Option<(u32, &Descriptor)> = None;
    for one in manifests {
        if let Some(fit) = fitness(one)
            && best.is_none_or(|(known, _)| fit > known)
        {
            best = Some((fit, one));
        }
    }
    best.map(|(_, one)| one).ok_or_else(|| {
        let mut found: Vec<String> = manifests
            .iter()
            .filter_map(|one| one.platform.as_ref())
            .map(|raw| raw.platform().to_string())
            .collect();
        found.retain(|name| name != "unknown/unknown");
        found.dedup();
        ManifestError::Platform {
            what: what.to_owned(),
            wanted: platform.to_string(),
            found: found.join(", "),
        }
    })
}

fn manifest(
    what: &str,
    document: Document,
    resolved: Digest,
    endpoint: String,
) -> Result<Manifest, ManifestError> {
    let bad = |why: String| ManifestError::Bad { what: what.to_owned(), why };
    let config = document.config.ok_or_else(|| bad("it has no config".into()))?;
    let layers = document.layers.ok_or_else(|| bad("it has no layers".into()))?;
    if layers.len() > MAX_LAYERS {
        return Err(bad(format!("{} layers are more than overlay takes ({MAX_LAYERS})", layers.len())));
    }
    for layer in &layers {
        check_layer(what, layer)?;
    }
    Ok(Manifest { resolved, config, layers, endpoint })
}

/// Layers must be tars; how they are compressed is seen from their bytes.
fn check_layer(what: &str, layer: &Descriptor) -> Result<(), ManifestError> {
    let kind = essence(&layer.media_type);
    let tar =
        ["application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.nondistributable.v1.tar"]
            .iter()
            .any(|prefix| kind.strip_prefix(prefix).is_some_and(|end| matches!(end, "" | "+gzip" | "+zstd")));
    let docker = [
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
    ]
    .iter()
    .any(|prefix| kind.strip_prefix(prefix).is_some_and(|end| matches!(end, "" | ".gzip" | ".zstd")));
    if tar || docker {
        return Ok(());
    }
    let hint = if kind.ends_with("+encrypted") { "; encrypted layers are not supported" } else { "" };
    let what = format!("layer {} of {what}", layer.digest);
    Err(ManifestError::MediaType { what, media_type: layer.media_type.clone(), hint })
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;
