//! The server: accepts, remembers what it saw, answers or misbehaves.

use super::auth::Auth;
use super::content::Content;
use super::fault::{Act, Fault};
use crate::image::{Blob, Image};
use anyhow::Context;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST, RANGE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A body of an answer; it may break off.
pub(super) type Body = BoxBody<Bytes, std::io::Error>;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// GET or HEAD.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The Range header.
    pub range: Option<String>,
    /// Whether it brought an Authorization header.
    pub authorized: bool,
}

#[derive(Default)]
struct State {
    content: Content,
    auth: Auth,
    faults: Vec<Fault>,
    seen: Vec<Seen>,
}

/// A running registry; it stops when dropped.
pub struct Registry {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Registry {
    /// Starts an empty registry on a free port of 127.0.0.1.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the registry")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State::default()));
        let server = tokio::spawn(accept(listener, state.clone()));
        Ok(Self { address, state, server })
    }

    /// `127.0.0.1:<port>`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds an image under `name:tag`.
    pub fn push(&self, name: &str, tag: &str, image: &Image) {
        lock(&self.state).content.image(name, Some(tag), image);
    }

    /// Adds an image that only an index or a digest leads to.
    pub fn push_untagged(&self, name: &str, image: &Image) {
        lock(&self.state).content.image(name, None, image);
    }

    /// Adds a manifest or index as it is.
    pub fn push_manifest(&self, name: &str, tag: &str, manifest: &Blob) {
        lock(&self.state).content.manifest(name, Some(tag), manifest);
    }

    /// Asks for this from now on.
    pub fn require(&self, auth: Auth) {
        lock(&self.state).auth = auth;
    }

    /// Goes wrong like this from now on.
    pub fn fail(&self, fault: Fault) {
        lock(&self.state).faults.push(fault);
    }

    /// Behaves from now on.
    pub fn behave(&self) {
        lock(&self.state).faults.clear();
    }

    /// What came so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.state).seen.clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A panic elsewhere must not hide behind a poisoned lock.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    // Connections end with the server: the set aborts them when it is dropped.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let state = state.clone();
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request| answer(state.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that goes away is its own affair.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let (response, act) = {
        let mut state = lock(&state);
        state.seen.push(seen(&request));
        let act = state.faults.iter_mut().find_map(|fault| fault.take(&path));
        let host = header(&request, HOST.as_str()).unwrap_or_default();
        match state.auth.answer(&request, &host) {
            Some(response) => (Err(response), act),
            None => (Ok(find(&state.content, &path)), act),
        }
    };
    if let Some(Act::Delay(time)) = act {
        tokio::time::sleep(time).await;
    }
    Ok(match (response, act) {
        (_, Some(Act::Status(status))) => text(status, "{\"errors\":[{\"code\":\"SCRIPTED\"}]}"),
        (Err(response), _) => response,
        (Ok(Err((status, words))), _) => text(status, words),
        (Ok(Ok(blob)), act) => deliver(&request, blob, act),
    })
}

fn seen(request: &Request<Incoming>) -> Seen {
    Seen {
        method: request.method().to_string(),
        path: request.uri().to_string(),
        range: header(request, RANGE.as_str()),
        authorized: request.headers().contains_key(hyper::header::AUTHORIZATION),
    }
}

fn header(request: &Request<Incoming>, name: &str) -> Option<String> {
    Some(request.headers().get(name)?.to_str().ok()?.to_owned())
}

/// What a path names, or the status and text that say what is wrong with it.
fn find(content: &Content, path: &str) -> Result<Blob, (StatusCode, &'static str)> {
    if path == "/v2/" {
        return Err((StatusCode::OK, "{}"));
    }
    let missing = |text| (StatusCode::NOT_FOUND, text);
    let unknown = missing("{\"errors\":[{\"code\":\"NAME_UNKNOWN\"}]}");
    let rest = path.strip_prefix("/v2/").ok_or(unknown)?;
    if let Some((name, reference)) = rest.rsplit_once("/manifests/") {
        let unknown = missing("{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}");
        return content.find_manifest(name, reference).ok_or(unknown);
    }
    let (name, digest) = rest.rsplit_once("/blobs/").ok_or(unknown)?;
    let unknown = missing("{\"errors\":[{\"code\":\"BLOB_UNKNOWN\"}]}");
    content.find_blob(name, digest).ok_or(unknown)
}

/// Sends a blob, whole or in part, well or not.
fn deliver(request: &Request<Incoming>, blob: Blob, act: Option<Act>) -> Response<Body> {
    let total = blob.bytes.len();
    let range = header(request, RANGE.as_str());
    if range.is_some() && matches!(act, Some(Act::RefuseRange)) {
        return text(StatusCode::BAD_REQUEST, "no ranges here");
    }
    let range = range.filter(|_| !matches!(act, Some(Act::IgnoreRange)));
    let range = range.and_then(|range| parse_range(&range, total));
    let (status, bytes) = match range {
        Some((from, to)) => (StatusCode::PARTIAL_CONTENT, blob.bytes.slice(from..=to)),
        None => (StatusCode::OK, blob.bytes),
    };
    let mut head = Response::builder().status(status).header(CONTENT_TYPE, &blob.media);
    if let Some((from, to)) = range {
        head = head.header(CONTENT_RANGE, format!("bytes {from}-{to}/{total}"));
    }
    if !matches!(act, Some(Act::NoDigestHeader)) {
        head = head.header("Docker-Content-Digest", &blob.digest);
    }
    if !matches!(act, Some(Act::Chunked)) {
        head = head.header(CONTENT_LENGTH, bytes.len());
    }
    let body = if request.method() == Method::HEAD { whole(Bytes::new()) } else { body(bytes, act) };
    head.body(body).unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "bad header"))
}

fn body(bytes: Bytes, act: Option<Act>) -> Body {
    match act {
        Some(Act::FlipBit) => {
            let mut bytes = bytes.to_vec();
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 1;
            }
            whole(bytes.into())
        }
        Some(Act::Truncate(length)) => broken(bytes.slice(..length.min(bytes.len()))),
        Some(Act::Throttle(rate)) => trickle(bytes, rate.max(10)),
        Some(Act::Chunked) => trickle(bytes, usize::MAX),
        _ => whole(bytes),
    }
}

fn parse_range(text: &str, total: usize) -> Option<(usize, usize)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from: usize = from.parse().ok()?;
    let to: usize = if to.is_empty() { total.checked_sub(1)? } else { to.parse().ok()? };
    (from <= to && from < total).then_some((from, to.min(total - 1)))
}

/// A short answer of our own.
pub(super) fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// Some bytes, then the connection breaks.
fn broken(bytes: Bytes) -> Body {
    let broken = std::io::Error::other("scripted end of the body");
    BodyExt::boxed(StreamBody::new(stream::iter([Ok(Frame::data(bytes)), Err(broken)])))
}

/// The body in ten pieces a second.
fn trickle(bytes: Bytes, rate: usize) -> Body {
    let piece = (rate / 10).clamp(1, 64 << 10);
    let pause = if rate == usize::MAX { Duration::ZERO } else { Duration::from_millis(100) };
    let pieces = stream::unfold(bytes, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(pause).await;
        let next = rest.split_to(piece.min(rest.len()));
        Some((Ok(Frame::data(next)), rest))
    });
    // The stream is Send but not Sync; a boxed body needs both.
    BodyExt::boxed(StreamBody::new(SyncStream(Mutex::new(Box::pin(pieces)))))
}

type Pieces = std::pin::Pin<Box<dyn stream::Stream<Item = std::io::Result<Frame<Bytes>>> + Send>>;

struct SyncStream(Mutex<Pieces>);

impl stream::Stream for SyncStream {
    type Item = std::io::Result<Frame<Bytes>>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let pieces = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        pieces.as_mut().poll_next(context)
    }
}
