//! Who may pull: everybody, who knows a password, or who brings a token for it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode, body::Incoming};

use super::serve::{Body, text};

/// How a registry asks who is there.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// It does not.
    #[default]
    Open,
    /// By name and password on every request.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// By a token that its own `/token` gives for name and password.
    Token {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
}

const TOKEN: &str = "berth-e2e-token";

impl Auth {
    /// The refusal that a request gets, or None if it may pass. `/token` is answered here too.
    pub(super) fn answer(&self, request: &Request<Incoming>, host: &str) -> Option<Response<Body>> {
        match self {
            Self::Open => None,
            Self::Basic { user, password } => {
                let wanted = basic(user, password);
                let known = authorization(request.headers()) == Some(wanted.as_str());
                (!known).then(|| refusal("Basic realm=\"berth-e2e\""))
            }
            Self::Token { user, password } => {
                let given = authorization(request.headers());
                if request.uri().path() == "/token" {
                    return Some(token(given == Some(basic(user, password).as_str())));
                }
                let known = given == Some(format!("Bearer {TOKEN}").as_str());
                let realm = format!("Bearer realm=\"http://{host}/token\",service=\"berth-e2e\"");
                (!known).then(|| refusal(&realm))
            }
        }
    }
}

fn token(known: bool) -> Response<Body> {
    if known {
        return text(StatusCode::OK, &format!("{{\"token\":\"{TOKEN}\"}}"));
    }
    text(StatusCode::UNAUTHORIZED, "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}")
}

fn refusal(challenge: &str) -> Response<Body> {
    let mut response = text(StatusCode::UNAUTHORIZED, "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}");
    if let Ok(value) = challenge.parse() {
        response.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    response
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}
