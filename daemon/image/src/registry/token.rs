//! Proving who asks: challenges of a 401, and the tokens they send one for.

use super::endpoint::{Endpoint, Scheme};
use super::error::Fault;
use super::http::{Ask, Failed, Http, body, refusal, shown};
use crate::auth::Credential;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use serde::Deserialize;
use std::collections::BTreeMap;
use url::Url;

const MAX_TOKEN: usize = 1 << 20;

/// What a registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// User name and password.
    Basic,
    /// A token from this server.
    Bearer(BTreeMap<String, String>),
}

/// The challenges in an answer's headers, in order; a header may hold several.
#[must_use]
pub fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(parse).collect()
}

fn parse(text: &str) -> Vec<Challenge> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find([' ', ',']).unwrap_or(rest.len());
        let scheme = rest[..end].to_ascii_lowercase();
        let (parameters, next) = parameters(rest[end..].trim_start());
        match scheme.as_str() {
            "basic" => found.push(Challenge::Basic),
            "bearer" => found.push(Challenge::Bearer(parameters)),
            _ => {}
        }
        rest = next.trim_start_matches([',', ' ']);
    }
    found
}

/// `key=value` or `key="quoted"` with commas between, up to something that is none.
fn parameters(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut found = BTreeMap::new();
    loop {
        let start = rest.trim_start_matches([',', ' ']);
        let key_end =
            start.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(start.len());
        let Some(after) = start[key_end..].trim_start().strip_prefix('=') else { return (found, start) };
        if key_end == 0 {
            return (found, "");
        }
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        found.insert(start[..key_end].to_ascii_lowercase(), value);
        rest = next;
    }
}

fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// The header for user name and password.
///
/// # Errors
/// Never for what base64 yields.
pub fn basic(username: &str, password: &str) -> Result<HeaderValue, Failed> {
    header(&format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
}

/// The header for a token.
///
/// # Errors
/// A token with characters that no header may have.
pub fn bearer(token: &str) -> Result<HeaderValue, Failed> {
    header(&format!("Bearer {token}"))
}

fn header(text: &str) -> Result<HeaderValue, Failed> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Failed::new(Fault::BadAnswer, "a token has characters that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Gets a token for `repository` as the challenge of `endpoint` says, with `credential` if it is meant for it.
///
/// # Errors
/// A token server that cannot be reached, refuses, or would get a password unencrypted.
pub(crate) async fn fetch(
    http: &Http,
    endpoint: &Endpoint,
    challenge: &BTreeMap<String, String>,
    repository: &str,
    credential: &Credential,
) -> Result<HeaderValue, Failed> {
    let url = realm(endpoint, challenge)?;
    let pull = format!("repository:{repository}:pull");
    let scope = challenge.get("scope").filter(|scope| !scope.is_empty()).unwrap_or(&pull);
    let service = challenge.get("service").map(String::as_str);
    let ask = match credential {
        Credential::Identity(token) => refresh(url, service, scope, token),
        other => query(url, service, scope, other)?,
    };
    let place = shown(&ask.url);
    let server = Endpoint { headers: Vec::new(), ..endpoint.clone() };
    let response = http.send(&server, ask).await.map_err(|failed| at(&place, failed))?;
    if !response.status().is_success() {
        return Err(at(&place, refusal(response).await));
    }
    token_in(&body(response, MAX_TOKEN).await?).map_err(|failed| at(&place, failed))
}

/// The token server, which must not be less protected than the registry.
fn realm(endpoint: &Endpoint, challenge: &BTreeMap<String, String>) -> Result<Url, Failed> {
    let realm = challenge.get("realm").and_then(|realm| Url::parse(realm).ok());
    let realm = realm.filter(|realm| matches!(realm.scheme(), "http" | "https"));
    let url = realm.ok_or_else(|| Failed::new(Fault::BadAnswer, "the challenge names no token server"))?;
    if url.scheme() == "http" && endpoint.scheme == Scheme::Https {
        let reason = format!(
            "the challenge of an encrypted registry names the unencrypted token server {}",
            shown(&url)
        );
        return Err(Failed::new(Fault::BadAnswer, reason));
    }
    Ok(url)
}

fn query(mut url: Url, service: Option<&str>, scope: &str, credential: &Credential) -> Result<Ask, Failed> {
    {
        let mut query = url.query_pairs_mut();
        if let Some(service) = service {
            query.append_pair("service", service);
        }
        query.append_pair("scope", scope);
        if let Credential::Basic { username, .. } = credential {
            query.append_pair("account", username);
        }
    }
    let mut ask = Ask::get(url, HeaderMap::new());
    if let Credential::Basic { username, password } = credential {
        ask.authorization = Some(basic(username, password)?);
    }
    Ok(ask)
}

fn token_in(body: &[u8]) -> Result<HeaderValue, Failed> {
    let bad = |why| Failed::new(Fault::BadAnswer, why);
    let answer: Answer = serde_json::from_slice(body).map_err(|_| bad("the answer is no token"))?;
    let token = answer.token.filter(|token| !token.is_empty()).or(answer.access_token);
    bearer(&token.filter(|token| !token.is_empty()).ok_or_else(|| bad("no token in the answer"))?)
}

fn at(place: &str, failed: Failed) -> Failed {
    Failed { reason: format!("token server {place}: {}", failed.reason), ..failed }
}

fn refresh(url: Url, service: Option<&str>, scope: &str, token: &str) -> Ask {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "refresh_token")
        .append_pair("service", service.unwrap_or_default())
        .append_pair("client_id", "berth")
        .append_pair("scope", scope)
        .append_pair("refresh_token", token)
        .finish();
    let mut ask = Ask::get(url, HeaderMap::new());
    ask.method = Method::POST;
    ask.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    ask.body = Bytes::from(form);
    ask
}

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Challenge {
        parse(text).into_iter().next().unwrap()
    }

    #[test]
    fn challenges_are_read_in_all_their_forms() {
        assert_eq!(one("Basic realm=\"x\""), Challenge::Basic);
        let Challenge::Bearer(p) =
            one(r#"Bearer realm="https://a/t",service="s, \"q\"",scope="repository:a:pull,push""#)
        else {
            panic!("not bearer")
        };
        assert_eq!(p["realm"], "https://a/t");
        assert_eq!(p["service"], "s, \"q\"");
        assert_eq!(p["scope"], "repository:a:pull,push");
        let both = parse(r#"Negotiate, Basic realm="r", BEARER realm=https://t , service=x"#);
        assert_eq!(both[0], Challenge::Basic);
        assert!(matches!(&both[1], Challenge::Bearer(p) if p["realm"] == "https://t" && p["service"] == "x"));
    }

    #[test]
    fn nonsense_ends() {
        for text in [
            "",
            ",,,",
            "Bearer",
            "Bearer =",
            "Bearer realm=\"",
            "\"\"",
            "a b c d",
            "Bearer realm=\"a\" \"b\"",
        ] {
            let _ = parse(text);
        }
    }
}
