//! A registry on loopback that does whatever a test tells it to.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// A request as seen by the registry.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What it answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// Breaks the connection after so many bytes.
    pub(crate) cut: Option<usize>,
    /// Sends no more after so many bytes, and keeps the connection.
    pub(crate) stall: Option<usize>,
    /// Without a length.
    pub(crate) chunked: bool,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }

    pub(crate) fn stall(mut self, after: usize) -> Self {
        self.stall = Some(after);
        self
    }
}

type Quirk = Box<dyn Fn(&Seen, usize) -> Option<Answer> + Send + Sync>;

/// Content by path, a quirk that may answer first, and a log.
#[derive(Default)]
struct State {
    content: Mutex<BTreeMap<String, (String, Bytes)>>,
    quirk: Mutex<Option<Quirk>>,
    log: Mutex<Vec<Seen>>,
}

#[derive(Clone)]
pub(crate) struct Registry {
    state: Arc<State>,
    address: std::net::SocketAddr,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        Self::serve(None).await
    }

    /// With TLS; clients that must show a certificate and do not are not let in.
    pub(crate) async fn start_tls(config: rustls::ServerConfig) -> Self {
        Self::serve(Some(tokio_rustls::TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn serve(tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, tls) = (Arc::clone(&served), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => connection(state, stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                connection(state, stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { state, address }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn put(&self, path: &str, kind: &str, body: impl Into<Bytes>) {
        self.state.content.lock().unwrap().insert(path.into(), (kind.into(), body.into()));
    }

    pub(crate) fn content(&self, path: &str) -> Bytes {
        self.state.content.lock().unwrap().get(path).unwrap().1.clone()
    }

    /// `quirk` sees each request and how many of the same path came before; it may answer instead.
    pub(crate) fn quirk(&self, quirk: impl Fn(&Seen, usize) -> Option<Answer> + Send + Sync + 'static) {
        *self.state.quirk.lock().unwrap() = Some(Box::new(quirk));
    }

    pub(crate) fn log(&self) -> Vec<Seen> {
        self.state.log.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.log().iter().filter(|seen| seen.path.contains(part)).count()
    }
}

async fn connection(
    state: Arc<State>,
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
) {
    let service = service_fn(move |request| serve(Arc::clone(&state), request));
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn serve(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, io::Error>>, io::Error> {
    let headers = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let (path, query) =
        (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let seen = Seen { path, query, headers, body: String::from_utf8_lossy(&body).into_owned() };
    let before = {
        let mut log = state.log.lock().unwrap();
        let before = log.iter().filter(|other| other.path == seen.path).count();
        log.push(seen.clone());
        before
    };
    let special = state.quirk.lock().unwrap().as_ref().and_then(|quirk| quirk(&seen, before));
    Ok(respond(special.unwrap_or_else(|| usual(&state, &seen))))
}

/// Content with ranges, or 404 in the registry's own words.
fn usual(state: &State, seen: &Seen) -> Answer {
    let content = state.content.lock().unwrap();
    let Some((kind, body)) = content.get(&seen.path) else {
        let text = r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#;
        return Answer::new(404, text).header("content-type", "application/json");
    };
    let answer = Answer::new(200, body.clone()).header("content-type", kind);
    let Some(range) = seen.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return answer;
    };
    let (from, to) = range.split_once('-').unwrap();
    let from: usize = from.parse().unwrap();
    let to = to.parse().map_or(body.len(), |to: usize| to + 1);
    let part = body.slice(from..to);
    Answer::new(206, part).header("content-range", &format!("bytes {from}-{}/{}", to - 1, body.len()))
}

fn respond(answer: Answer) -> Response<BoxBody<Bytes, io::Error>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let length = answer.body.len();
    if !answer.chunked {
        response = response.header("content-length", length);
    }
    if let Some(after) = answer.stall {
        let first = futures_util::stream::iter([Ok(Frame::data(answer.body.slice(..after)))]);
        let all = futures_util::StreamExt::chain(first, futures_util::stream::pending());
        return response.body(BoxBody::new(StreamBody::new(all))).unwrap();
    }
    let body: BoxBody<Bytes, io::Error> = match answer.cut {
        None if !answer.chunked => Full::new(answer.body).map_err(|never| match never {}).boxed(),
        cut => {
            let mut frames = vec![Ok(Frame::data(answer.body.slice(..cut.unwrap_or(length))))];
            if cut.is_some() {
                frames.push(Err(io::Error::other("cut")));
            }
            StreamBody::new(Slow(frames.into_iter(), None)).boxed()
        }
    };
    response.body(body).unwrap()
}

/// Gives what went before a break the time to be sent.
struct Slow(
    std::vec::IntoIter<Result<Frame<Bytes>, io::Error>>,
    Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
);

impl futures_util::Stream for Slow {
    type Item = Result<Frame<Bytes>, io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::future::Future;
        if let Some(sleep) = &mut self.1 {
            std::task::ready!(sleep.as_mut().poll(cx));
        }
        self.1 = Some(Box::pin(tokio::time::sleep(std::time::Duration::from_millis(20))));
        std::task::Poll::Ready(self.0.next())
    }
}
