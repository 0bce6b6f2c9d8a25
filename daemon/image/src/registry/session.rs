//! One pull's talk with one registry and its mirrors.

use super::endpoint::{Endpoint, Scheme, default_scheme};
use super::error::{Fault, RegistryError, Tried};
use super::http::{Ask, Failed, Http, refusal};
use super::token::{self, Challenge};
use crate::auth::{Credential, RegistryAuth};
use crate::progress::{Event, Progress};
use crate::reference::Reference;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

/// Attempts at the last endpoint, which has no other behind it, and at those before it.
const LAST_ATTEMPTS: u32 = 5;
const MIRROR_ATTEMPTS: u32 = 2;
/// A registry that wants to be left alone for longer is left alone.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// One pull's talk with one registry and its mirrors. Shared by its layers.
#[derive(Debug)]
pub struct Session {
    http: Arc<Http>,
    places: Vec<Place>,
    repository: String,
    host: String,
    progress: Progress,
}

/// An endpoint and what is known of it.
#[derive(Debug)]
pub struct Place {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its place in the order.
    pub number: usize,
    credential: CredentialBox,
    proof: Mutex<Option<HeaderValue>>,
    down: AtomicBool,
    /// It gave other content than asked for.
    bad: AtomicBool,
}

/// Keeps secrets out of `Debug`.
struct CredentialBox(Credential);

impl std::fmt::Debug for CredentialBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("credential")
    }
}

/// What an endpoint must be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Turn a tag into a digest.
    Resolve,
    /// Serve content by digest.
    Pull,
}

impl Place {
    fn new(number: usize, endpoint: Endpoint, auth: &RegistryAuth, credential: &Credential) -> Self {
        let meant = match auth.server_host() {
            // Explicit credentials of one host: that host, whoever it is in this pull.
            Some(host) => same_host(host, &endpoint) || (endpoint.trusted && aliases(host, &endpoint)),
            None => endpoint.trusted,
        };
        let credential = if meant { credential.clone() } else { Credential::Anonymous };
        let proof = match &credential {
            Credential::Bearer(token) => token::bearer(token).ok(),
            _ => None,
        };
        Self {
            endpoint,
            number,
            credential: CredentialBox(credential),
            proof: Mutex::new(proof),
            down: AtomicBool::new(false),
            bad: AtomicBool::new(false),
        }
    }

    /// The endpoint could not be reached: the rest of this pull asks the others first.
    pub fn mark_down(&self) {
        self.down.store(true, Ordering::Relaxed);
    }
}

fn same_host(host: &str, endpoint: &Endpoint) -> bool {
    host.eq_ignore_ascii_case(&endpoint.authority)
}

/// Docker's registry goes by several names; a trusted server may stand for the registry that the credentials name.
fn aliases(host: &str, endpoint: &Endpoint) -> bool {
    let docker = |host: &str| matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io");
    (docker(host) && docker(&endpoint.authority))
        || endpoint.namespace.as_deref().is_some_and(|namespace| namespace.eq_ignore_ascii_case(host))
}

impl Session {
    /// A session for the repository of `reference` at `endpoints`, in their order.
    ///
    /// # Errors
    /// Credentials that cannot be used.
    pub fn new(
        http: Arc<Http>,
        endpoints: Vec<Endpoint>,
        reference: &Reference,
        auth: &RegistryAuth,
        progress: Progress,
    ) -> Result<Self, crate::auth::AuthError> {
        let credential = auth.credential()?;
        let place = |(number, endpoint)| Place::new(number, endpoint, auth, &credential);
        let places = endpoints.into_iter().enumerate().map(place).collect();
        let (repository, host) = (reference.path().to_owned(), reference.host().to_owned());
        Ok(Self { http, places, repository, host, progress })
    }

    /// Notes that one of these places gave other content than asked for: the rest of this pull asks them last. False
    /// when that is known already, or when no other place that serves content is left: then there is no use in asking
    /// again.
    #[must_use]
    pub fn distrust(&self, numbers: &[usize]) -> bool {
        let mut news = false;
        for place in self.places.iter().filter(|place| numbers.contains(&place.number)) {
            news |= !place.bad.swap(true, Ordering::Relaxed);
        }
        news && self.places.iter().any(|place| place.endpoint.pull && !place.bad.load(Ordering::Relaxed))
    }

    /// Endpoints that can do it: those that answered lately first, those that gave wrong content last.
    ///
    /// # Errors
    /// When there is none.
    pub fn places(&self, what: &str, capability: Capability) -> Result<Vec<&Place>, RegistryError> {
        let able = |place: &&Place| match capability {
            Capability::Resolve => place.endpoint.resolve,
            Capability::Pull => place.endpoint.pull,
        };
        let able: Vec<&Place> = self.places.iter().filter(able).collect();
        let (down, up): (Vec<&Place>, Vec<&Place>) =
            able.into_iter().partition(|place| place.down.load(Ordering::Relaxed));
        let mut all: Vec<&Place> = up.into_iter().chain(down).collect();
        all.sort_by_key(|place| place.bad.load(Ordering::Relaxed));
        if all.is_empty() {
            let capability = if capability == Capability::Resolve { "resolve" } else { "pull" };
            return Err(RegistryError::NoEndpoint {
                what: what.to_owned(),
                host: self.host.clone(),
                capability,
            });
        }
        Ok(all)
    }

    /// Does `act` at each endpoint, with repeats, until it succeeds at one. A broken answer is not repeated at the
    /// same place, but others are asked.
    ///
    /// # Errors
    /// The last word of every endpoint.
    pub async fn anywhere<'a, T, F>(
        &'a self,
        what: &str,
        layer: Option<usize>,
        capability: Capability,
        mut act: impl FnMut(&'a Place) -> F,
    ) -> Result<T, RegistryError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let places = self.places(what, capability)?;
        let last = places.len() - 1;
        let mut tried = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let attempts = if at == last { LAST_ATTEMPTS } else { MIRROR_ATTEMPTS };
            let mut attempt = 0;
            let failed = loop {
                attempt += 1;
                let failed = match act(place).await {
                    Ok(done) => return Ok(done),
                    Err(failed) => failed,
                };
                if attempt >= attempts || !self.may_repeat(&failed, attempt, layer).await {
                    break failed;
                }
            };
            if failed.fault == Fault::Unreachable {
                place.mark_down();
            }
            tried.push(Tried {
                endpoint: place.endpoint.to_string(),
                fault: failed.fault,
                reason: failed.reason,
            });
        }
        // The order is that of the question: the registry itself had the last word, unless it was down before.
        Err(RegistryError::Failed { what: what.to_owned(), tried })
    }

    /// Waits before the next attempt: as long as the server asks, or longer each time. No: it makes no sense.
    pub async fn may_repeat(&self, failed: &Failed, attempt: u32, layer: Option<usize>) -> bool {
        if !failed.fault.is_transient() {
            return false;
        }
        let backoff = Duration::from_millis(200 << attempt.min(6)) + jitter();
        let wait = failed.wait.unwrap_or(backoff);
        if wait > MAX_WAIT {
            return false;
        }
        self.progress.tell(Event::Retry { layer, reason: failed.reason.clone() });
        tokio::time::sleep(wait).await;
        true
    }

    /// A GET of something of the repository, with the proof the endpoint asks for. Bad statuses are failures.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub async fn get(
        &self,
        place: &Place,
        rest: &str,
        headers: HeaderMap,
    ) -> Result<Response<Incoming>, Failed> {
        let url = place.endpoint.url(&self.repository, rest);
        let url =
            Url::parse(&url).map_err(|_| Failed::new(Fault::BadAnswer, format!("{url:?} is no URL")))?;
        let mut asked = false;
        loop {
            let proof = place.proof.lock().await.clone();
            let mut ask = Ask::get(url.clone(), headers.clone());
            ask.authorization.clone_from(&proof);
            let response = self.http.send(&place.endpoint, ask).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let challenges = token::challenges(response.headers());
            let failed = refusal(response).await;
            if failed.fault != Fault::Unauthenticated
                || asked
                || !self.prove(place, proof, &challenges).await?
            {
                return Err(failed);
            }
            asked = true;
        }
    }

    /// Answers a challenge, unless another layer just did. False when there is nothing to answer with.
    async fn prove(
        &self,
        place: &Place,
        used: Option<HeaderValue>,
        challenges: &[Challenge],
    ) -> Result<bool, Failed> {
        let mut proof = place.proof.lock().await;
        if *proof != used {
            return Ok(true);
        }
        let credential = &place.credential.0;
        for challenge in challenges {
            match (challenge, credential) {
                (_, Credential::Bearer(_)) => return Ok(false),
                (Challenge::Bearer(parameters), credential) => {
                    let token =
                        token::fetch(&self.http, &place.endpoint, parameters, &self.repository, credential)
                            .await?;
                    *proof = Some(token);
                    return Ok(true);
                }
                (Challenge::Basic, Credential::Basic { username, password })
                    if plain_is_fine(&place.endpoint) =>
                {
                    *proof = Some(token::basic(username, password)?);
                    return Ok(true);
                }
                (Challenge::Basic, _) => {}
            }
        }
        Ok(false)
    }
}

/// An http endpoint is either loopback or was configured as http on purpose.
fn plain_is_fine(endpoint: &Endpoint) -> bool {
    endpoint.scheme == Scheme::Https
        || endpoint.trusted
        || default_scheme(&endpoint.authority) == Scheme::Http
}

fn jitter() -> Duration {
    let mut byte = [0u8; 1];
    // Without random bytes all wait equally long, which is only less polite.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut byte);
    Duration::from_millis(u64::from(byte[0]))
}
