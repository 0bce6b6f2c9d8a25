//! One request and its answer: pooled connections per TLS setting, time limits, redirects.

use super::connect::Connector;
use super::endpoint::{Endpoint, TlsSettings};
use super::error::Fault;
use super::tls;
use crate::threads::Threads;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use url::Url;

/// Longest wait from sending a request to the head of its answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 8;
/// Most clients kept; each is a pool for one set of certificates.
const MAX_CLIENTS: usize = 32;

type Pool = Client<Connector, Full<Bytes>>;

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What kind.
    pub fault: Fault,
    /// What to tell people: no secrets, no query strings.
    pub reason: String,
    /// How long the server asks to wait.
    pub wait: Option<Duration>,
}

impl Failed {
    /// A failure without a wish to wait.
    pub fn new(fault: Fault, reason: impl Into<String>) -> Self {
        Self { fault, reason: reason.into(), wait: None }
    }
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Ask {
    /// GET or POST.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// Headers that go wherever the request is redirected to.
    pub headers: HeaderMap,
    /// The proof, for this very host alone.
    pub authorization: Option<HeaderValue>,
    /// The body of a POST.
    pub body: Bytes,
}

impl Ask {
    /// A GET with these headers.
    #[must_use]
    pub fn get(url: Url, headers: HeaderMap) -> Self {
        Self { method: Method::GET, url, headers, authorization: None, body: Bytes::new() }
    }
}

/// The pools.
#[derive(Debug)]
pub struct Http {
    pools: Mutex<HashMap<(TlsSettings, Duration), Pool>>,
    user_agent: HeaderValue,
    names: Threads,
}

/// A URL for people: no user, no query (signed URLs carry their signature there).
#[must_use]
pub fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

impl Http {
    /// No connections yet.
    #[must_use]
    pub fn new(user_agent: &str) -> Self {
        let user_agent = HeaderValue::from_str(user_agent).unwrap_or(HeaderValue::from_static("berth"));
        Self { pools: Mutex::default(), user_agent, names: Threads::default() }
    }

    fn pool(&self, settings: &TlsSettings, dial_timeout: Duration) -> Result<Pool, Failed> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (settings.clone(), dial_timeout);
        if let Some(pool) = pools.get(&key) {
            return Ok(pool.clone());
        }
        let config =
            tls::config(settings).map_err(|error| Failed::new(Fault::BadAnswer, error.to_string()))?;
        let connector = Connector::new(Arc::new(config), dial_timeout, self.names.clone());
        let pool: Pool = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(8)
            .build(connector);
        if pools.len() >= MAX_CLIENTS {
            pools.clear();
        }
        pools.insert(key, pool.clone());
        Ok(pool)
    }

    /// Sends `ask` to `endpoint`, or to the token server it named, and follows redirects. Beyond the scheme, host and
    /// port of `ask` neither headers nor the proof nor certificates go along, and a body goes nowhere else at all. A
    /// token server on another host is believed by the endpoint's authorities, but its identity is always checked and
    /// it is not shown the client certificate: the registry chooses who it is.
    ///
    /// # Errors
    /// No answer. A bad status is no error here.
    pub async fn send(&self, endpoint: &Endpoint, mut ask: Ask) -> Result<Response<Incoming>, Failed> {
        let home = ask.url.origin();
        let own = endpoint.is_host(&ask.url);
        let tls = if own { endpoint.tls.clone() } else { endpoint.tls.authorities() };
        for _ in 0..MAX_REDIRECTS {
            let at_home = ask.url.origin() == home;
            let response = self.once(endpoint, &ask, at_home.then_some(&tls)).await?;
            if !response.status().is_redirection() || response.status() == 304 {
                return Ok(response);
            }
            if ask.method != Method::GET {
                let reason = format!("{}: redirects what carries a secret", shown(&ask.url));
                return Err(Failed::new(Fault::BadAnswer, reason));
            }
            let next = location(&ask.url, response.headers())?;
            if ask.url.scheme() == "https" && next.scheme() != "https" {
                let reason = format!("redirect from {} to unencrypted {}", shown(&ask.url), shown(&next));
                return Err(Failed::new(Fault::BadAnswer, reason));
            }
            ask.url = next;
        }
        Err(Failed::new(Fault::BadAnswer, format!("more than {MAX_REDIRECTS} redirects")))
    }

    async fn once(
        &self,
        endpoint: &Endpoint,
        ask: &Ask,
        home: Option<&TlsSettings>,
    ) -> Result<Response<Incoming>, Failed> {
        let foreign = TlsSettings::default();
        let pool = self.pool(home.unwrap_or(&foreign), endpoint.dial_timeout)?;
        let bad = |error: String| Failed::new(Fault::BadAnswer, error);
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(ask.url.as_str())
            .body(Full::new(ask.body.clone()))
            .map_err(|error| bad(error.to_string()))?;
        let headers = request.headers_mut();
        headers.extend(ask.headers.clone());
        headers.insert(USER_AGENT, self.user_agent.clone());
        if home.is_some() {
            for (name, value) in &endpoint.headers {
                headers.insert(name.clone(), value.clone());
            }
            if let Some(proof) = &ask.authorization {
                headers.insert(AUTHORIZATION, proof.clone());
            }
        }
        match tokio::time::timeout(HEAD_TIMEOUT, pool.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Failed::new(Fault::Unreachable, unreachable(&ask.url, &error))),
            Err(_) => {
                let reason = format!("{}: no answer within {HEAD_TIMEOUT:?}", shown(&ask.url));
                Err(Failed::new(Fault::Unreachable, reason))
            }
        }
    }
}

fn unreachable(url: &Url, error: &hyper_util::client::legacy::Error) -> String {
    let mut text = berth_core::error::chain(error);
    if let Some(rest) = text.strip_prefix("client error (Connect): ") {
        text = rest.to_owned();
    }
    format!("{}: {text}", shown(url))
}

fn location(from: &Url, headers: &HeaderMap) -> Result<Url, Failed> {
    let text = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let url = text.and_then(|text| from.join(text).ok());
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| Failed::new(Fault::BadAnswer, format!("{}: redirect to nowhere", shown(from))))
}

/// The whole body, if it is no longer than `limit`.
///
/// # Errors
/// [`Fault::TooBig`], or a broken connection.
pub async fn body(response: Response<Incoming>, limit: usize) -> Result<Bytes, Failed> {
    let collect = Limited::new(response.into_body(), limit).collect();
    match tokio::time::timeout(HEAD_TIMEOUT, collect).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Failed::new(Fault::TooBig, format!("the answer is larger than {limit} bytes")))
        }
        Ok(Err(error)) => Err(Failed::new(Fault::Unreachable, format!("the answer broke off: {error}"))),
        Err(_) => {
            Err(Failed::new(Fault::Unreachable, format!("the answer took longer than {HEAD_TIMEOUT:?}")))
        }
    }
}

/// What a bad status means, with the registry's own words.
pub async fn refusal(response: Response<Incoming>) -> Failed {
    let status = response.status();
    let wait = retry_after(response.headers());
    let excerpt = match body(response, 64 << 10).await {
        Ok(body) => excerpt(&body),
        Err(_) => String::new(),
    };
    let separator = if excerpt.is_empty() { "" } else { ": " };
    let reason = format!("{status}{separator}{excerpt}");
    Failed { fault: Fault::of_status(status.as_u16()), reason, wait }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The registry's error objects, or else the beginning of the text, made printable.
fn excerpt(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(serde::Deserialize)]
    struct One {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let text = match serde_json::from_slice::<Errors>(body) {
        Ok(errors) => errors
            .errors
            .iter()
            .map(|one| format!("{} {}", one.code, one.message))
            .collect::<Vec<_>>()
            .join(", "),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(256).collect();
    clean.trim().to_owned()
}
