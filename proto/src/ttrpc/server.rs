//! The answering side: a task for each call, a bound on calls in flight, panics answered as INTERNAL.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use prost::Message;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::DEFAULT_FRAME_MAX;
use super::frame::{self, FrameError, FrameHeader, Kind, flag};
use super::message::{Request, Response};
use super::status::{Code, Status};

/// Answers that wait for the socket, on each connection.
const QUEUE: usize = 16;

/// Calls in flight on one connection before further ones are refused.
const DEFAULT_IN_FLIGHT_MAX: usize = 256;

/// Accepting is tried again after this, e.g. when file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// When stopping, answers under way get this long to leave.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// The encoded answer to one call, some time.
pub type Answer = Pin<Box<dyn Future<Output = Result<Vec<u8>, Status>> + Send>>;

/// One named service.
pub trait Service: Send + Sync + 'static {
    /// Begins a call. The future runs to its end even if the caller goes.
    fn call(&self, method: &str, payload: Vec<u8>) -> Answer;
}

/// A set of services behind one listener.
#[derive(Clone)]
pub struct Server {
    services: BTreeMap<String, Arc<dyn Service>>,
    frame_max: usize,
    in_flight_max: usize,
    only_uid: Option<u32>,
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl Server {
    /// A server without services, with containerd's limit for frames.
    pub fn new() -> Server {
        Server {
            services: BTreeMap::new(),
            frame_max: DEFAULT_FRAME_MAX,
            in_flight_max: DEFAULT_IN_FLIGHT_MAX,
            only_uid: None,
        }
    }

    /// Adds a service under its full name.
    #[must_use]
    pub fn service(mut self, name: &str, service: Arc<dyn Service>) -> Server {
        self.services.insert(name.to_owned(), service);
        self
    }

    /// Sends and takes frames of up to so many bytes.
    #[must_use]
    pub fn frame_max(mut self, bytes: usize) -> Server {
        self.frame_max = bytes;
        self
    }

    /// Refuses calls beyond so many in flight on one connection.
    #[must_use]
    pub fn in_flight_max(mut self, calls: usize) -> Server {
        self.in_flight_max = calls;
        self
    }

    /// Drops every connection whose peer is another user.
    #[must_use]
    pub fn only_uid(mut self, uid: u32) -> Server {
        self.only_uid = Some(uid);
        self
    }

    /// Serves until `stop` comes, then takes no further calls, waits for the answers under way (at most a
    /// second) and returns.
    pub async fn serve(&self, listener: &UnixListener, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_ended) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if self.admits(&stream) => {
                        let (server, stopped) = (self.clone(), stopped.clone());
                        connections.spawn(async move { server.serve_connection(stream, stopped).await });
                    }
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
            }
        }
        let _none_left = stopping.send(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _late = tokio::time::timeout(DRAIN_MAX, drained).await;
    }

    fn admits(&self, stream: &UnixStream) -> bool {
        match self.only_uid {
            None => true,
            Some(uid) => stream.peer_cred().is_ok_and(|peer| peer.uid() == uid),
        }
    }

    /// Serves one connection until the peer goes or `stopped` turns true.
    async fn serve_connection(&self, stream: UnixStream, mut stopped: watch::Receiver<bool>) {
        let (mut reader, mut writer) = stream.into_split();
        let (answers, mut queued) = mpsc::channel(QUEUE);
        // Both in this one task, so that its end closes the connection whatever calls are still under way.
        let reading = async move {
            tokio::select! {
                _lost = self.read_calls(&mut reader, &answers) => {}
                _stop = stopped.wait_for(|stop| *stop) => {}
            }
        };
        let _sent = tokio::join!(reading, frame::write_all_frames(&mut writer, &mut queued));
    }

    async fn read_calls(
        &self,
        reader: &mut OwnedReadHalf,
        answers: &mpsc::Sender<Vec<u8>>,
    ) -> io::Result<()> {
        let in_flight = Arc::new(Semaphore::new(self.in_flight_max));
        loop {
            match frame::read_frame(reader, self.frame_max).await {
                Ok(None) => return Ok(()),
                Ok(Some((header, payload))) => match self.begin(header, &payload) {
                    Some(Ok(call)) => match in_flight.clone().try_acquire_owned() {
                        Ok(place) => {
                            let (answers, max) = (answers.clone(), self.frame_max);
                            tokio::spawn(async move {
                                let result = without_panic(call).await;
                                reply(&answers, header.stream, result, max).await;
                                drop(place);
                            });
                        }
                        Err(_) => {
                            let full = Status::new(Code::ResourceExhausted, "too many calls in flight");
                            reply(answers, header.stream, Err(full), self.frame_max).await;
                        }
                    },
                    Some(Err(status)) => reply(answers, header.stream, Err(status), self.frame_max).await,
                    None => {}
                },
                Err(error @ FrameError::TooLarge { stream, .. }) => {
                    let status = Status::new(Code::ResourceExhausted, error.to_string());
                    reply(answers, stream, Err(status), self.frame_max).await;
                }
                Err(FrameError::Io(error)) => return Err(error),
            }
        }
    }

    /// What a frame asks for: a call, a refusal, or (data for a refused stream) nothing.
    fn begin(&self, header: FrameHeader, payload: &[u8]) -> Option<Result<Answer, Status>> {
        match header.kind {
            Kind::Request => Some(self.route(header, payload)),
            Kind::Data => None,
            kind => Some(Err(Status::invalid(format!("a server takes no frame {kind:?}")))),
        }
    }

    fn route(&self, header: FrameHeader, payload: &[u8]) -> Result<Answer, Status> {
        if header.stream.is_multiple_of(2) {
            return Err(Status::invalid("a client's stream ids are odd"));
        }
        if header.flags & (flag::REMOTE_OPEN | flag::REMOTE_CLOSED) != 0 {
            return Err(Status::unimplemented("streams are not served here"));
        }
        let request = Request::decode(payload)
            .map_err(|error| Status::invalid(format!("undecodable request: {error}")))?;
        let Some(service) = self.services.get(&request.service).cloned() else {
            return Err(Status::unimplemented(format!("no service {}", request.service)));
        };
        Ok(Box::pin(async move { service.call(&request.method, request.payload).await }))
    }
}

/// A panic ends the call that met it and nothing else.
async fn without_panic(mut call: Answer) -> Result<Vec<u8>, Status> {
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
        Ok(poll) => poll,
        Err(_) => Poll::Ready(Err(Status::internal("the server panicked in this call; see its log"))),
    })
    .await
}

async fn reply(answers: &mpsc::Sender<Vec<u8>>, stream: u32, result: Result<Vec<u8>, Status>, max: usize) {
    let response = match result {
        Ok(payload) => Response { status: None, payload },
        Err(status) => Response { status: Some(status.to_wire()), payload: Vec::new() },
    };
    let frame = frame::encode(stream, Kind::Response, &response, max).or_else(|error| {
        let status = Status::new(Code::ResourceExhausted, error.to_string()).to_wire();
        frame::encode(stream, Kind::Response, &Response { status: Some(status), payload: Vec::new() }, max)
    });
    if let Ok(frame) = frame {
        let _peer_gone = answers.send(frame).await;
    }
}
