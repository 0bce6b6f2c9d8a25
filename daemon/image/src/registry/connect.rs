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
        let tcp = dial(&self.addresses(host, port).await?, self.timeout).await?;
        tcp.set_nodelay(true)?;
        if !secure {
            return Ok(Stream::Plain(TokioIo::new(tcp)));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let tls = self.tls.connect(name, tcp).await?;
        Ok(Stream::Tls(Box::new(TokioIo::new(tls))))
    }
}

/// The first address that answers. A dead one gets its share of the time only: the next may be alive.
async fn dial(addresses: &[SocketAddr], whole: Duration) -> io::Result<TcpStream> {
    let share = whole / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        last = match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => io::Error::new(error.kind(), format!("{address}: {error}")),
            Err(_) => {
                io::Error::new(io::ErrorKind::TimedOut, format!("{address}: no connection within {share:?}"))
            }
        };
    }
    Err(last)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    /// A listener whose queue is full: the kernel drops what comes, as a route that leads nowhere does.
    async fn deaf() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let (address, mut queued) = (listener.local_addr().unwrap(), Vec::new());
        let patience = Duration::from_millis(300);
        while let Ok(stream) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
            queued.push(stream.unwrap());
        }
        (listener, queued)
    }

    #[tokio::test]
    async fn a_dead_address_leaves_time_for_the_next() {
        let (deaf, _queued) = deaf().await;
        let alive = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [deaf.local_addr().unwrap(), alive.local_addr().unwrap()];
        let stream = dial(&addresses, Duration::from_secs(2)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
        let error = dial(&addresses[..1], Duration::from_millis(200)).await.unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::TimedOut && error.to_string().contains(&addresses[0].to_string())
        );
        assert!(dial(&[], Duration::from_secs(1)).await.is_err());
    }
}
