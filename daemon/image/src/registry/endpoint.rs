//! One place where a registry's API is served.

use hyper::header::{HeaderName, HeaderValue};
use std::fmt;
use std::time::Duration;

/// What is waited for a connection unless `dial_timeout` says otherwise.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Encrypted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// As in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// What TLS needs for a host. The contents of the files are kept, so that a changed file makes a new client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// Certificates of authorities, PEM, trusted beside the system's.
    pub ca: Vec<Vec<u8>>,
    /// Client certificates: PEM of the chain and of the key.
    pub client: Vec<(Vec<u8>, Vec<u8>)>,
    /// Accept whatever certificate the server shows.
    pub skip_verify: bool,
}

impl TlsSettings {
    /// Whom to trust, without the rest.
    #[must_use]
    pub fn authorities(&self) -> Self {
        Self { ca: self.ca.clone(), ..Self::default() }
    }
}

/// One place where a registry's API is served.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Encrypted or not.
    pub scheme: Scheme,
    /// Host with its port, as in a URL.
    pub authority: String,
    /// What comes before `/<repository>/…`, usually `/v2`.
    pub prefix: String,
    /// May turn tags into digests.
    pub resolve: bool,
    /// May serve content by digest.
    pub pull: bool,
    /// Keys and certificates.
    pub tls: TlsSettings,
    /// Further request headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Longest wait for a connection.
    pub dial_timeout: Duration,
    /// The registry this is a mirror of, sent as `?ns=`.
    pub namespace: Option<String>,
    /// The credentials of the pull are meant for this endpoint.
    pub trusted: bool,
}

impl Endpoint {
    /// The origin of `host`, with the defaults.
    #[must_use]
    pub fn origin(host: &str) -> Self {
        let authority = if host == "docker.io" { "registry-1.docker.io" } else { host };
        Self::plain(default_scheme(authority), authority)
    }

    /// Whether `url` leads to the same host, on whatever port.
    #[must_use]
    pub fn is_host(&self, url: &url::Url) -> bool {
        let own = url::Url::parse(&self.to_string());
        own.is_ok_and(|own| own.host_str().is_some() && own.host_str() == url.host_str())
    }

    /// An endpoint with nothing special.
    #[must_use]
    pub fn plain(scheme: Scheme, authority: &str) -> Self {
        Self {
            scheme,
            authority: authority.to_owned(),
            prefix: "/v2".to_owned(),
            resolve: true,
            pull: true,
            tls: TlsSettings::default(),
            headers: Vec::new(),
            dial_timeout: DIAL_TIMEOUT,
            namespace: None,
            trusted: true,
        }
    }

    /// The URL of something of `repository`.
    #[must_use]
    pub fn url(&self, repository: &str, rest: &str) -> String {
        let mut url = format!("{self}{}/{repository}/{rest}", self.prefix);
        if let Some(namespace) = &self.namespace {
            let ns: String = url::form_urlencoded::byte_serialize(namespace.as_bytes()).collect();
            url.push_str("?ns=");
            url.push_str(&ns);
        }
        url
    }
}

/// Loopback registries speak plain HTTP, as for containerd and Docker; all others TLS.
#[must_use]
pub fn default_scheme(authority: &str) -> Scheme {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if (loopback || host == "localhost") && !authority.ends_with(":443") {
        Scheme::Http
    } else {
        Scheme::Https
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}{}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_plain_by_default() {
        for (host, scheme) in [
            ("localhost:5000", Scheme::Http),
            ("127.0.0.1", Scheme::Http),
            ("127.9.9.9:80", Scheme::Http),
            ("[::1]:5000", Scheme::Http),
            ("localhost:443", Scheme::Https),
            ("10.0.0.1:5000", Scheme::Https),
            ("localhost.example:5000", Scheme::Https),
        ] {
            assert_eq!(default_scheme(host), scheme, "{host}");
        }
    }

    #[test]
    fn urls_carry_the_namespace_of_a_mirror() {
        let mut endpoint = Endpoint::origin("docker.io");
        assert_eq!(endpoint.url("a/b", "manifests/x"), "https://registry-1.docker.io/v2/a/b/manifests/x");
        endpoint.namespace = Some("h:5000".into());
        assert!(endpoint.url("a", "blobs/y").ends_with("/v2/a/blobs/y?ns=h%3A5000"));
    }
}
