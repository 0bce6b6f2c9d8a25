//! Connections for the HTTP client: TCP with a time limit, then TLS where the URL says so.

use crate::threads::Threads;
use hyper::Uri;
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Makes connections with one TLS configuration.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    timeout: Duration,
    names: Threads,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Connector {
    /// A connector that gives a connection `timeout` to come up, TLS included. Names are looked up on `names`: a name
    /// server that does not answer holds threads.
    pub(crate) fn new(config: Arc<rustls::ClientConfig>, timeout: Duration, names: Threads) -> Self {
        Self { tls: TlsConnector::from(config), timeout, names }
    }

    /// The addresses of a host, in the order in which to try them.
    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let host = host.to_owned();
        let found = self.names.run(move || Ok((host.as_str(), port).to_socket_addrs().map(Vec::from_iter)));
        found.await.map_err(io::Error::other)?
    }
}

/// A connection, encrypted or not.
#[derive(Debug)]
pub enum Stream {
    /// Plain.
    Plain(TokioIo<TcpStream>),
    /// TLS.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl tower::Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (this, timeout) = (self.clone(), self.timeout);
        Box::pin(async move {
            tokio::time::timeout(timeout, this.connect(uri)).await.unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {timeout:?}")))
            })
        })
    }
}

impl Connector {
    async fn connect(self, uri: Uri) -> io::Result<Stream> {
        let host = uri.host().ok_or_else(|| io::Error::other("the URL names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tcp = TcpStream::connect(self.addresses(host, port).await?.as_slice()).await?;
        tcp.set_nodelay(true)?;
        if !secure {
            return Ok(Stream::Plain(TokioIo::new(tcp)));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let tls = self.tls.connect(name, tcp).await?;
        Ok(Stream::Tls(Box::new(TokioIo::new(tls))))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        }
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
