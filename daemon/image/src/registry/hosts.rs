//! `certs.d/<host>/hosts.toml` in containerd's format: which endpoints serve a registry, in which order.

use super::endpoint::{Endpoint, Scheme, TlsSettings, default_scheme};
use berth_core::{Classified, ErrorClass};
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Table;

/// A hosts.toml that cannot be used. A damaged one must not send the pull elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no TOML, or has values of other types.
    #[error("{}: {why}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and what.
        why: String,
    },
    /// A value makes no sense.
    #[error("{}: {key} {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Classified for HostsError {
    fn class(&self) -> ErrorClass {
        ErrorClass::FailedPrecondition
    }
}

/// One or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Several<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Several<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum ClientCert {
    Both(PathBuf),
    Pair(Vec<PathBuf>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Host {
    capabilities: Vec<String>,
    ca: Option<Several<PathBuf>>,
    client: Option<Several<ClientCert>>,
    skip_verify: bool,
    override_path: bool,
    header: Option<toml::map::Map<String, toml::Value>>,
    dial_timeout: Option<String>,
    /// What we do not know: a misspelt key would be the reason of a failure that nobody finds.
    #[serde(flatten)]
    others: Table,
}

/// The endpoints of `host`, mirrors first, the registry itself last. Without a file for it, the registry alone.
///
/// # Errors
/// A damaged file. A missing directory is no error.
pub fn load(certs_dir: &Path, host: &str) -> Result<Vec<Endpoint>, HostsError> {
    for name in directory_names(host) {
        let dir = certs_dir.join(&name);
        let path = dir.join("hosts.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => return parse(&text, &path, host, name != "_default"),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !dir.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return docker_certs(&dir, host),
            Err(source) => return Err(HostsError::Read { path, source }),
        }
    }
    Ok(vec![Endpoint::origin(host)])
}

/// A host with a port also goes by `host_port_`, since some file systems have no colons.
fn directory_names(host: &str) -> Vec<String> {
    let mut names = Vec::new();
    if let Some((name, port)) = host.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|b| b.is_ascii_digit())
    {
        names.push(format!("{name}_{port}_"));
    }
    names.push(host.to_owned());
    names.push("_default".to_owned());
    names
}

fn parse(text: &str, path: &Path, host: &str, own: bool) -> Result<Vec<Endpoint>, HostsError> {
    let bad = |error: toml::de::Error| HostsError::Parse { path: path.to_owned(), why: error.to_string() };
    let mut table: Table = toml::from_str(text).map_err(bad)?;
    let value =
        |key: &str, why: &str| HostsError::Value { path: path.into(), key: key.into(), why: why.into() };
    let server = match table.remove("server") {
        None => None,
        Some(toml::Value::String(server)) => Some(server),
        Some(_) => return Err(value("server", "must be a URL")),
    };
    let hosts = match table.remove("host") {
        None => Table::new(),
        Some(toml::Value::Table(hosts)) => hosts,
        Some(_) => return Err(value("host", "must be a table of URLs")),
    };
    let mut endpoints = Vec::new();
    for (url, settings) in hosts {
        let settings: Host = settings.try_into().map_err(bad)?;
        let mut endpoint = endpoint(&url, settings, path)?;
        // A mirror is another host: it is told whose content is wanted, and gets no credentials.
        let same = endpoint.authority == Endpoint::origin(host).authority;
        endpoint.trusted = same;
        endpoint.namespace = (!same).then(|| host.to_owned());
        endpoints.push(endpoint);
    }
    // The keys beside `server` are about the server.
    let settings: Host = toml::Value::Table(table).try_into().map_err(bad)?;
    let server_url = server.clone().unwrap_or_else(|| Endpoint::origin(host).to_string());
    let mut last = endpoint(&server_url, settings, path)?;
    let same = last.authority == Endpoint::origin(host).authority;
    last.namespace = (!same).then(|| host.to_owned());
    // Whoever names a server in the registry's own file names the registry; in `_default` it is any host's.
    last.trusted = same || own;
    let twin = |known: &&mut Endpoint| known.authority == last.authority && known.scheme == last.scheme;
    match endpoints.iter_mut().find(twin) {
        // The server named again as a host keeps its keys and is no stranger.
        Some(known) => known.trusted |= last.trusted,
        None => endpoints.push(last),
    }
    Ok(endpoints)
}

fn endpoint(text: &str, settings: Host, path: &Path) -> Result<Endpoint, HostsError> {
    let bad = |why: &str| HostsError::Value { path: path.into(), key: text.to_owned(), why: why.to_owned() };
    for key in settings.others.keys() {
        tracing::warn!(file = %path.display(), host = text, key, "unknown key is passed over");
    }
    let full = match text.split_once("://") {
        Some(_) => text.to_owned(),
        None => format!("{}://{text}", default_scheme(text.split('/').next().unwrap_or_default()).as_str()),
    };
    let url = url::Url::parse(&full).map_err(|error| bad(&format!("is no URL: {error}")))?;
    let scheme = match url.scheme() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(bad("must be an http or https URL")),
    };
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("names no host"))?;
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let mut prefix = url.path().trim_end_matches('/').to_owned();
    if !settings.override_path && !prefix.ends_with("/v2") {
        prefix.push_str("/v2");
    }
    let mut endpoint = Endpoint { prefix, ..Endpoint::plain(scheme, &authority) };
    capabilities(&mut endpoint, &settings.capabilities)
        .map_err(|word| bad(&format!("has the unknown capability {word:?}")))?;
    if let Some(time) = &settings.dial_timeout {
        endpoint.dial_timeout =
            duration(time).ok_or_else(|| bad("has a dial_timeout that is no time, write \"3s\""))?;
    }
    endpoint.headers = headers(settings.header.unwrap_or_default())
        .map_err(|name| bad(&format!("has a bad header {name:?}")))?;
    endpoint.tls = tls(settings.ca, settings.client, settings.skip_verify, path)?;
    Ok(endpoint)
}

fn capabilities(endpoint: &mut Endpoint, words: &[String]) -> Result<(), String> {
    if words.is_empty() {
        return Ok(());
    }
    (endpoint.pull, endpoint.resolve) = (false, false);
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "pull" => endpoint.pull = true,
            "resolve" => endpoint.resolve = true,
            "push" | "referrers" => {}
            _ => return Err(word.clone()),
        }
    }
    Ok(())
}

fn headers(table: Table) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut found = Vec::new();
    for (name, value) in table {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| name.clone())?;
        let values: Several<String> = value.try_into().map_err(|_| name.clone())?;
        for value in values.into_vec() {
            found.push((key.clone(), HeaderValue::from_str(&value).map_err(|_| name.clone())?));
        }
    }
    Ok(found)
}

/// Go's durations, as far as they are sensible here: `500ms`, `3s`, `1m`, `1m30s`.
fn duration(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let seconds = match &rest[digits..unit_end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &rest[unit_end..];
    }
    (!total.is_zero()).then_some(total)
}

fn read(path: &Path, beside: &Path) -> Result<Vec<u8>, HostsError> {
    let path = beside.parent().unwrap_or(beside).join(path);
    std::fs::read(&path).map_err(|source| HostsError::Read { path, source })
}

fn tls(
    ca: Option<Several<PathBuf>>,
    client: Option<Several<ClientCert>>,
    skip_verify: bool,
    file: &Path,
) -> Result<TlsSettings, HostsError> {
    let mut settings = TlsSettings { skip_verify, ..TlsSettings::default() };
    for path in ca.map(Several::into_vec).unwrap_or_default() {
        settings.ca.push(read(&path, file)?);
    }
    let several = match client {
        // A list of two plain names is containerd's list of two files that hold both parts each.
        Some(several) => several.into_vec(),
        None => Vec::new(),
    };
    for cert in several {
        let (chain, key) = match &cert {
            ClientCert::Both(path) => (path, path),
            ClientCert::Pair(pair) => match pair.as_slice() {
                [both] => (both, both),
                [chain, key] if key.as_os_str().is_empty() => (chain, chain),
                [chain, key] => (chain, key),
                _ => {
                    let (path, key, why) =
                        (file.into(), "client".into(), "needs pairs of certificate and key".into());
                    return Err(HostsError::Value { path, key, why });
                }
            },
        };
        settings.client.push((read(chain, file)?, read(key, file)?));
    }
    Ok(settings)
}

/// Docker's layout: `*.crt` are authorities, `x.cert` with `x.key` client certificates.
fn docker_certs(dir: &Path, host: &str) -> Result<Vec<Endpoint>, HostsError> {
    let fail = |source| HostsError::Read { path: dir.to_owned(), source };
    let mut endpoint = Endpoint::origin(host);
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .map_err(fail)?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()
        .map_err(fail)?;
    files.sort();
    let beside = dir.join("hosts.toml");
    for path in files {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("crt") => endpoint.tls.ca.push(read(&path, &beside)?),
            Some("cert") => {
                let key = read(&path.with_extension("key"), &beside)?;
                endpoint.tls.client.push((read(&path, &beside)?, key));
            }
            _ => {}
        }
    }
    if !endpoint.tls.ca.is_empty() || !endpoint.tls.client.is_empty() {
        endpoint.scheme = Scheme::Https;
    }
    Ok(vec![endpoint])
}

#[cfg(test)]
#[path = "hosts/tests.rs"]
mod tests;
