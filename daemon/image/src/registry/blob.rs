//! Content by digest: into memory if it is small, or as a stream that survives broken connections and changes of
//! mirror, and is verified as a whole.

use super::error::{Fault, RegistryError, Tried};
use super::http::{Failed, body};
use super::manifest::{Descriptor, digest_of};
use super::session::{Capability, Place, Session};
use berth_snapshot::Digest;
use berth_snapshot::digest::Algorithm;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT_ENCODING, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use hyper::{Response, StatusCode};
use ring::digest::{Context, SHA256, SHA512};
use std::time::{Duration, Instant};

/// A body must bring this many bytes per window of waiting, or the connection is given up.
const WINDOW: Duration = Duration::from_secs(30);
const WINDOW_BYTES: u64 = 32 << 10;
/// Attempts without much progress at one endpoint.
const ATTEMPTS: u32 = 5;

/// Where a stream goes.
pub trait Sink: Send {
    /// Takes the next bytes.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), SinkGone>> + Send;
}

/// Whoever took the bytes is gone: there is no use in fetching more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkGone;

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The taker is gone; it knows why.
    #[error("the fetched bytes are no longer wanted")]
    SinkGone,
}

/// Fetches small content whole.
///
/// # Errors
/// Nothing there, too large, another digest.
pub async fn small(
    session: &Session,
    what: &str,
    descriptor: &Descriptor,
    limit: usize,
) -> Result<Bytes, RegistryError> {
    let fetch = |place| async move {
        let response = session.get(place, &format!("blobs/{}", descriptor.digest), plain_headers()).await?;
        let bytes = body(response, limit).await?;
        let found = digest_of(descriptor.digest.algorithm(), &bytes);
        if found != descriptor.digest {
            return Err(Failed::new(
                Fault::Mismatch,
                format!("digest {found} instead of {}", descriptor.digest),
            ));
        }
        Ok(bytes)
    };
    session.anywhere(what, None, Capability::Pull, fetch).await
}

/// No transfer compression: digests are over the bytes as stored.
fn plain_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}

/// A layer being fetched.
#[derive(Debug)]
pub struct Stream<'a> {
    session: &'a Session,
    what: String,
    layer: usize,
    descriptor: &'a Descriptor,
    hash: Hash,
    done: u64,
    ranges: bool,
    /// Places that gave bytes.
    sources: Vec<usize>,
}

struct Hash(Context, Algorithm);

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.1.as_str())
    }
}

enum Broken {
    Failed(Failed),
    SinkGone,
}

impl From<Failed> for Broken {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl<'a> Stream<'a> {
    /// A stream of `descriptor`, the layer at position `layer`.
    #[must_use]
    pub fn new(session: &'a Session, layer: usize, descriptor: &'a Descriptor) -> Self {
        let algorithm = descriptor.digest.algorithm();
        let function = if algorithm == Algorithm::Sha256 { &SHA256 } else { &SHA512 };
        let hash = Hash(Context::new(function), algorithm);
        let what = format!("layer {}", descriptor.digest);
        Self { session, what, layer, descriptor, hash, done: 0, ranges: true, sources: Vec::new() }
    }

    /// Fetches it into `sink`, telling `progress` the bytes so far. Each endpoint goes on where the one before broke
    /// off; the digest is that of the whole.
    ///
    /// # Errors
    /// Every endpoint failed, the digest is wrong, or the sink is gone.
    pub async fn fetch(
        &mut self,
        sink: &mut impl Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), BlobError> {
        let places = self.session.places(&self.what, Capability::Pull)?;
        let mut tried = Vec::new();
        for place in places {
            match self.at_place(place, sink, progress).await {
                Ok(()) => return self.verify().map_err(Into::into),
                Err(Broken::SinkGone) => return Err(BlobError::SinkGone),
                Err(Broken::Failed(failed)) => {
                    if failed.fault == Fault::Unreachable {
                        place.mark_down();
                    }
                    let endpoint = place.endpoint.to_string();
                    tried.push(Tried { endpoint, fault: failed.fault, reason: failed.reason });
                }
            }
        }
        Err(RegistryError::Failed { what: self.what.clone(), tried }.into())
    }

    /// The places that gave any of the bytes, by number: if those are wrong, one of these is to blame.
    #[must_use]
    pub fn sources(&self) -> Vec<usize> {
        self.sources.clone()
    }

    async fn at_place(
        &mut self,
        place: &Place,
        sink: &mut impl Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Broken> {
        let mut attempt = 0;
        loop {
            let before = self.done;
            let failed = match self.once(place, sink, progress).await {
                Ok(()) => return Ok(()),
                Err(Broken::Failed(failed)) => failed,
                Err(gone @ Broken::SinkGone) => return Err(gone),
            };
            let refused_range = before > 0 && self.ranges && matches!(failed.fault, Fault::Refused(_));
            if refused_range {
                // It cannot continue in the middle: take it from the start and leave out what is here.
                self.ranges = false;
                continue;
            }
            // A connection that breaks after a few bytes each time would go on for ever.
            attempt = if self.done - before >= WINDOW_BYTES { 1 } else { attempt + 1 };
            if attempt >= ATTEMPTS || !self.session.may_repeat(&failed, attempt, Some(self.layer)).await {
                return Err(failed.into());
            }
        }
    }

    /// One request, continued at `done`. The first request of a layer has no range.
    async fn once(
        &mut self,
        place: &Place,
        sink: &mut impl Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Broken> {
        let size = self.descriptor.size;
        if self.done == size && size > 0 {
            return Ok(());
        }
        let mut headers = plain_headers();
        if self.done > 0 && self.ranges {
            let range = format!("bytes={}-{}", self.done, size - 1);
            let value =
                HeaderValue::from_str(&range).map_err(|_| Failed::new(Fault::BadAnswer, "bad range"))?;
            headers.insert(RANGE, value);
        }
        let response = self.session.get(place, &format!("blobs/{}", self.descriptor.digest), headers).await?;
        let skip = if response.status() == StatusCode::PARTIAL_CONTENT {
            check_range(&response, self.done)?;
            0
        } else {
            self.done
        };
        let before = self.done;
        let taken = self.body(response, skip, sink, progress).await;
        // More bytes than there should be are wrong bytes, too.
        let gave = self.done > before
            || matches!(&taken, Err(Broken::Failed(failed)) if failed.fault == Fault::Mismatch);
        if gave && !self.sources.contains(&place.number) {
            self.sources.push(place.number);
        }
        taken
    }

    async fn body(
        &mut self,
        response: Response<Incoming>,
        mut skip: u64,
        sink: &mut impl Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Broken> {
        let mut body = response.into_body();
        let mut window = Window::default();
        loop {
            let Some(mut bytes) = next(&mut body, &mut window).await? else { break };
            let length = u64::try_from(bytes.len()).unwrap_or(0);
            let drop = skip.min(length);
            skip -= drop;
            let _ = bytes.split_to(usize::try_from(drop).unwrap_or(0));
            if bytes.is_empty() {
                continue;
            }
            let left = self.descriptor.size - self.done;
            let length = length - drop;
            if length > left {
                let reason = format!("more bytes than the {} of the manifest", self.descriptor.size);
                return Err(Failed::new(Fault::Mismatch, reason).into());
            }
            self.hash.0.update(&bytes);
            self.done += length;
            sink.write(bytes).await.map_err(|SinkGone| Broken::SinkGone)?;
            progress(self.done);
        }
        if self.done < self.descriptor.size {
            let reason = format!("the body ended after {} of {} bytes", self.done, self.descriptor.size);
            return Err(Failed::new(Fault::Unreachable, reason).into());
        }
        Ok(())
    }

    fn verify(&self) -> Result<(), RegistryError> {
        let Hash(context, algorithm) = &self.hash;
        let found = Digest::from_bytes(*algorithm, context.clone().finish().as_ref());
        match found {
            Ok(found) if found == self.descriptor.digest => Ok(()),
            Ok(found) => {
                let (what, wanted) = (self.what.clone(), self.descriptor.digest.clone());
                Err(RegistryError::Digest { what, wanted, found })
            }
            Err(error) => unreachable!("a hash of its own algorithm has the right length: {error}"),
        }
    }
}

fn check_range(response: &Response<Incoming>, done: u64) -> Result<(), Failed> {
    let text =
        response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let start = text.strip_prefix("bytes ").and_then(|rest| rest.split('-').next());
    match start.and_then(|start| start.trim().parse::<u64>().ok()) {
        Some(start) if start == done => Ok(()),
        _ => Err(Failed::new(Fault::Refused(206), format!("answered another range: {text:?}"))),
    }
}

/// How fast bytes come while we wait for them. Time that the taker spends does not count.
#[derive(Debug, Default)]
struct Window {
    waited: Duration,
    bytes: u64,
}

async fn next(body: &mut Incoming, window: &mut Window) -> Result<Option<Bytes>, Failed> {
    loop {
        let start = Instant::now();
        let frame = tokio::time::timeout(WINDOW, body.frame()).await;
        window.waited += start.elapsed();
        let Ok(frame) = frame else {
            return Err(Failed::new(Fault::Unreachable, format!("no bytes for {WINDOW:?}")));
        };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| {
            Failed::new(
                Fault::Unreachable,
                format!("the body broke off: {}", berth_core::error::chain(&error)),
            )
        })?;
        let Ok(bytes) = frame.into_data() else { continue };
        window.bytes += u64::try_from(bytes.len()).unwrap_or(0);
        if window.waited >= WINDOW {
            if window.bytes < WINDOW_BYTES {
                let reason = format!("only {} bytes in {WINDOW:?} of waiting", window.bytes);
                return Err(Failed::new(Fault::Unreachable, reason));
            }
            *window = Window::default();
        }
        return Ok(Some(bytes));
    }
}
