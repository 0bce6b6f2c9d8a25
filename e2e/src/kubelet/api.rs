//! The kubelet's API on loopback, with the certificate that it makes for itself.

use super::NODE;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where every kubelet listens: each has a loopback of its own.
pub(super) const PORT: u16 = 10250;

/// A client of one kubelet.
pub struct Api {
    certificate: PathBuf,
}

impl Api {
    pub(super) fn new(certificate: PathBuf) -> Self {
        Self { certificate }
    }

    /// GET; another answer than success is an error with its text.
    pub async fn get(&self, path: &str) -> Result<String> {
        self.ask("GET", path).await
    }

    /// A command in a container of a pod in the default namespace; what it prints. Words are parted by one space.
    pub async fn run(&self, pod: &str, container: &str, command: &str) -> Result<String> {
        let command = command.replace('%', "%25").replace(' ', "%20").replace('&', "%26");
        self.ask("POST", &format!("/run/default/{pod}-{NODE}/{container}?cmd={command}")).await
    }

    /// The log of a container of a pod in the default namespace.
    pub async fn log(&self, pod: &str, container: &str) -> Result<String> {
        self.get(&format!("/containerLogs/default/{pod}-{NODE}/{container}")).await
    }

    async fn ask(&self, method: &str, path: &str) -> Result<String> {
        let asked = tokio::time::timeout(Duration::from_secs(30), self.exchange(method, path));
        asked
            .await
            .context("no answer in 30 s")
            .and_then(|answer| answer)
            .with_context(|| format!("{method} {path}"))
    }

    async fn exchange(&self, method: &str, path: &str) -> Result<String> {
        let stream = TcpStream::connect(("127.0.0.1", PORT)).await?;
        let stream = TlsConnector::from(self.trust()?).connect(ServerName::try_from(NODE)?, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request =
            Request::builder().method(method).uri(path).header("Host", NODE).body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        connection.abort();
        let text = String::from_utf8_lossy(&body).into_owned();
        if !status.is_success() {
            bail!("{status}: {text}");
        }
        Ok(text)
    }

    /// Trusts what stands in the kubelet's certificate file: itself and its maker.
    fn trust(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.certificate)? {
            roots.add(certificate?)?;
        }
        Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
    }
}
