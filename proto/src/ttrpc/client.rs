//! The calling side: one connection, many calls in flight, a deadline for each.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::frame::{self, FrameError, Kind};
use super::message::{Request, Response};
use super::status::{Code, Status};
use super::{DEFAULT_FRAME_MAX, socket};

/// Frames that wait for the socket; beyond them a call waits before it is sent.
const QUEUE: usize = 32;

/// No connection was made.
#[derive(Debug, thiserror::Error)]
#[error("connect to {path}: {source}")]
pub struct ConnectError {
    /// The socket.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

/// A call did not bring its answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server said no.
    #[error("{method}: {status}")]
    Refused {
        /// The call.
        method: String,
        /// The server's words.
        status: Status,
    },
    /// The time is over. The server goes on with what it began.
    #[error("{method}: no answer within {after:?}")]
    Deadline {
        /// The call.
        method: String,
        /// The time given.
        after: Duration,
    },
    /// The peer went, or had gone before. Whether it did the work is not known.
    #[error("{method}: the peer is gone ({cause})")]
    Disconnected {
        /// The call.
        method: String,
        /// How the connection ended.
        cause: String,
    },
    /// The request does not fit a frame, or the answer does not.
    #[error("{method}: {source}")]
    TooLarge {
        /// The call.
        method: String,
        /// Both sizes.
        source: FrameError,
    },
    /// The answer is not the message that was expected.
    #[error("{method}: undecodable answer: {source}")]
    Decode {
        /// The call.
        method: String,
        /// Where decoding stopped.
        source: prost::DecodeError,
    },
}

impl CallError {
    /// The server's status, if it was the server who refused.
    pub fn status(&self) -> Option<&Status> {
        match self {
            CallError::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// True if the connection is of no use any more.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, CallError::Disconnected { .. })
    }
}

type Waiter = oneshot::Sender<Result<Response, FrameError>>;

/// Calls that wait for an answer, or why there will be none any more.
enum Calls {
    Open { next: u32, waiting: HashMap<u32, Waiter> },
    Closed(String),
}

struct Inner {
    calls: Arc<Mutex<Calls>>,
    queue: mpsc::Sender<Vec<u8>>,
    frame_max: usize,
    reader: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A connection to a ttrpc server. Clones share it; it closes with the last of them.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

impl Client {
    /// Connects to a path socket, with containerd's limit for frames.
    pub async fn connect(path: &Path) -> Result<Client, ConnectError> {
        Client::connect_with(path, DEFAULT_FRAME_MAX).await
    }

    /// Connects to a path socket; frames up to `frame_max` bytes are sent and taken.
    pub async fn connect_with(path: &Path, frame_max: usize) -> Result<Client, ConnectError> {
        let stream =
            socket::connect(path).await.map_err(|source| ConnectError { path: path.to_owned(), source })?;
        Ok(Client::new(stream, frame_max))
    }

    /// Speaks ttrpc over a connected socket. Must be called within a tokio runtime.
    pub fn new(stream: UnixStream, frame_max: usize) -> Client {
        let (read_half, write_half) = stream.into_split();
        let calls = Arc::new(Mutex::new(Calls::Open { next: 1, waiting: HashMap::new() }));
        let (queue, queued) = mpsc::channel(QUEUE);
        let reader = tokio::spawn(read_answers(read_half, frame_max, calls.clone())).abort_handle();
        tokio::spawn(write_requests(write_half, queued, calls.clone()));
        Client { inner: Arc::new(Inner { calls, queue, frame_max, reader }) }
    }

    /// True once the connection has ended; every further call fails at once.
    pub fn is_closed(&self) -> bool {
        matches!(*lock(&self.inner.calls), Calls::Closed(_))
    }

    /// Makes one call. Without a timeout it waits for as long as the connection lives.
    pub async fn call<Q: Message, A: Message + Default>(
        &self,
        service: &str,
        method: &str,
        request: &Q,
        timeout: Option<Duration>,
    ) -> Result<A, CallError> {
        let envelope = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload: request.encode_to_vec(),
            timeout_nano: timeout.map_or(0, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX)),
            metadata: Vec::new(),
        };
        let exchange = self.exchange(method, &envelope);
        let response = match timeout {
            None => exchange.await?,
            Some(after) => tokio::time::timeout(after, exchange)
                .await
                .map_err(|_| CallError::Deadline { method: method.to_owned(), after })??,
        };
        answer(method, response)
    }

    async fn exchange(&self, method: &str, envelope: &Request) -> Result<Response, CallError> {
        let too_large = |source| CallError::TooLarge { method: method.to_owned(), source };
        let frame = frame::encode(0, Kind::Request, envelope, self.inner.frame_max).map_err(too_large)?;
        let (waiter, waiting) = oneshot::channel();
        let place = match self.inner.queue.reserve().await {
            Ok(permit) => self.enter(frame, waiter, permit),
            Err(_) => None,
        };
        let Some(_place) = place else { return Err(self.disconnected(method)) };
        match waiting.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(source)) => Err(too_large(source)),
            Err(_) => Err(self.disconnected(method)),
        }
    }

    /// Takes a stream id and queues the frame in one step: a server may insist that ids rise.
    fn enter(&self, mut frame: Vec<u8>, waiter: Waiter, permit: mpsc::Permit<'_, Vec<u8>>) -> Option<Place> {
        let mut calls = lock(&self.inner.calls);
        let Calls::Open { next, waiting } = &mut *calls else { return None };
        let stream = *next;
        let Some(after) = stream.checked_add(2) else {
            *calls = Calls::Closed("stream ids used up".to_owned());
            return None;
        };
        *next = after;
        waiting.insert(stream, waiter);
        frame[4..8].copy_from_slice(&stream.to_be_bytes());
        permit.send(frame);
        Some(Place { calls: self.inner.calls.clone(), stream })
    }

    fn disconnected(&self, method: &str) -> CallError {
        let cause = match &*lock(&self.inner.calls) {
            Calls::Closed(cause) => cause.clone(),
            Calls::Open { .. } => "connection closing".to_owned(),
        };
        CallError::Disconnected { method: method.to_owned(), cause }
    }
}

/// A call's entry among those that wait; gone when the caller is.
struct Place {
    calls: Arc<Mutex<Calls>>,
    stream: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Calls::Open { waiting, .. } = &mut *lock(&self.calls) {
            waiting.remove(&self.stream);
        }
    }
}

fn answer<A: Message + Default>(method: &str, response: Response) -> Result<A, CallError> {
    let status = response.status.map(Status::from_wire).filter(|status| status.code != Code::Ok);
    if let Some(status) = status {
        return Err(CallError::Refused { method: method.to_owned(), status });
    }
    A::decode(response.payload.as_slice())
        .map_err(|source| CallError::Decode { method: method.to_owned(), source })
}

async fn read_answers(mut reader: OwnedReadHalf, frame_max: usize, calls: Arc<Mutex<Calls>>) {
    let cause = loop {
        match frame::read_frame(&mut reader, frame_max).await {
            Ok(Some((header, payload))) => match header.kind {
                Kind::Response => match Response::decode(payload.as_slice()) {
                    Ok(response) => settle(&calls, header.stream, Ok(response)),
                    Err(error) => break format!("undecodable response: {error}"),
                },
                kind => break format!("unexpected frame {kind:?}"),
            },
            Ok(None) => break "closed by the peer".to_owned(),
            Err(FrameError::Io(error)) => break error.to_string(),
            Err(error @ FrameError::TooLarge { stream, .. }) => settle(&calls, stream, Err(error)),
        }
    };
    close(&calls, cause);
}

async fn write_requests(
    mut writer: OwnedWriteHalf,
    mut queued: mpsc::Receiver<Vec<u8>>,
    calls: Arc<Mutex<Calls>>,
) {
    if let Err(error) = frame::write_all_frames(&mut writer, &mut queued).await {
        close(&calls, error.to_string());
    }
}

/// An answer nobody waits for any more is dropped.
fn settle(calls: &Mutex<Calls>, stream: u32, result: Result<Response, FrameError>) {
    if let Calls::Open { waiting, .. } = &mut *lock(calls)
        && let Some(waiter) = waiting.remove(&stream)
    {
        let _gone = waiter.send(result);
    }
}

/// The first cause stays; all waiters learn of it by the drop of their sender.
fn close(calls: &Mutex<Calls>, cause: String) {
    let mut calls = lock(calls);
    if matches!(*calls, Calls::Open { .. }) {
        *calls = Calls::Closed(cause);
    }
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
