//! The server and the client against raw bytes, against each other, and against peers that misbehave.
#![cfg(feature = "shim")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_proto::ttrpc::{
    Answer, CallError, Client, Code, DEFAULT_FRAME_MAX, FrameHeader, HEADER_LEN, Kind, Request, Response,
    Server, Service, Status, flag, socket,
};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

/// Echoes; or sleeps, fails, panics, grows, by the method's name.
struct Echo;

impl Service for Echo {
    fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
        let method = method.to_owned();
        Box::pin(async move {
            match method.as_str() {
                "Echo" => Ok(payload),
                "Slow" => {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    Ok(payload)
                }
                "Never" => std::future::pending().await,
                "Panic" => panic!("told to"),
                "Grow" => Ok(Text { text: "x".repeat(DEFAULT_FRAME_MAX) }.encode_to_vec()),
                other => Err(Status::not_found(format!("no {other} here"))),
            }
        })
    }
}

/// A server of `Echo` on a socket of its own; it ends with the sender.
async fn serving(server: Server) -> (tempfile::TempDir, PathBuf, oneshot::Sender<()>) {
    let directory = tempfile::tempdir().expect("test set-up");
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).expect("test set-up");
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        server.service("test.Echo", Arc::new(Echo)).serve(&listener, async { drop(stopped.await) }).await;
    });
    (directory, path, stop)
}

async fn call(client: &Client, method: &str, text: &str, timeout: Duration) -> Result<String, CallError> {
    let request = Text { text: text.to_owned() };
    client.call::<_, Text>("test.Echo", method, &request, Some(timeout)).await.map(|answer| answer.text)
}

async fn read_response(stream: &mut UnixStream) -> (FrameHeader, Response) {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await.expect("test set-up");
    let header = FrameHeader::from_bytes(header);
    let mut payload = vec![0; header.length as usize];
    stream.read_exact(&mut payload).await.expect("test set-up");
    (header, Response::decode(payload.as_slice()).expect("test set-up"))
}

fn request(stream: u32, flags: u8, service: &str, method: &str) -> Vec<u8> {
    let envelope = Request { service: service.into(), method: method.into(), ..Default::default() };
    let payload = envelope.encode_to_vec();
    let header = FrameHeader { length: payload.len() as u32, stream, kind: Kind::Request, flags };
    [header.to_bytes().as_slice(), &payload].concat()
}

/// The bytes are those that containerd's client writes for service "test.Echo", method "Echo", payload 0a 01 78,
/// a timeout of one second and one pair of metadata; and those its server answers.
#[tokio::test(flavor = "current_thread")]
async fn speaks_containerds_bytes() {
    let (_directory, path, _stop) = serving(Server::new()).await;
    let mut stream = UnixStream::connect(path).await.unwrap();
    let mut wire = vec![0, 0, 0, 36, 0, 0, 0, 1, 1, 0];
    wire.extend_from_slice(
        b"\x0a\x09test.Echo\x12\x04Echo\x1a\x03\x0a\x01x\x20\x80\x94\xeb\xdc\x03\x2a\x06\x0a\x01k\x12\x01v",
    );
    stream.write_all(&wire).await.unwrap();
    let mut answer = [0; 15];
    tokio::time::timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, [0, 0, 0, 5, 0, 0, 0, 1, 2, 0, 0x12, 3, 0x0a, 1, b'x']);
}

#[tokio::test(flavor = "current_thread")]
async fn calls_are_concurrent_and_answers_find_their_callers() {
    let (_directory, path, _stop) = serving(Server::new()).await;
    let client = Client::connect(&path).await.unwrap();
    let begun = std::time::Instant::now();
    let slow: Vec<_> = (0..20)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "Slow", &n.to_string(), LIMIT).await })
        })
        .collect();
    assert_eq!(call(&client, "Echo", "quick", LIMIT).await.unwrap(), "quick");
    assert!(begun.elapsed() < Duration::from_millis(300), "not behind the slow ones");
    for (n, task) in slow.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().unwrap(), n.to_string());
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "side by side");
}

#[tokio::test(flavor = "current_thread")]
async fn a_deadline_ends_the_call_and_not_the_connection() {
    let (_directory, path, _stop) = serving(Server::new()).await;
    let client = Client::connect(&path).await.unwrap();
    let late = call(&client, "Slow", "x", Duration::from_millis(20)).await;
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(call(&client, "Echo", "y", LIMIT).await.unwrap(), "y", "the late answer went to nobody");
}

#[tokio::test(flavor = "current_thread")]
async fn failures_are_typed() {
    let (_directory, path, _stop) = serving(Server::new()).await;
    let client = Client::connect(&path).await.unwrap();
    let code = |result: Result<String, CallError>| result.unwrap_err().status().map(|status| status.code);
    assert_eq!(code(call(&client, "Nothing", "", LIMIT).await), Some(Code::NotFound));
    assert_eq!(code(call(&client, "Panic", "", LIMIT).await), Some(Code::Internal));
    assert_eq!(code(call(&client, "Grow", "", LIMIT).await), Some(Code::ResourceExhausted));
    let no_service = client.call::<_, Text>("test.None", "Echo", &Text::default(), None).await.unwrap_err();
    assert_eq!(no_service.status().unwrap().code, Code::Unimplemented);
    let large = call(&client, "Echo", &"x".repeat(DEFAULT_FRAME_MAX), LIMIT).await;
    assert!(matches!(large, Err(CallError::TooLarge { .. })));
    assert_eq!(call(&client, "Echo", "still here", LIMIT).await.unwrap(), "still here");
}

#[tokio::test(flavor = "current_thread")]
async fn a_lost_peer_fails_every_call_at_once() {
    let (_directory, path, stop) = serving(Server::new()).await;
    let client = Client::connect(&path).await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "Never", "", LIMIT).await }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    stop.send(()).unwrap();
    let lost = waiting.await.unwrap().unwrap_err();
    assert!(lost.is_disconnected(), "{lost}");
    assert!(client.is_closed());
    assert!(call(&client, "Echo", "", LIMIT).await.unwrap_err().is_disconnected());
    assert!(Client::connect(&path).await.is_err() || call(&client, "Echo", "", LIMIT).await.is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn answers_under_way_leave_before_the_server_does() {
    let (_directory, path, stop) = serving(Server::new()).await;
    let client = Client::connect(&path).await.unwrap();
    let slow = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "Slow", "last word", LIMIT).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.send(()).unwrap();
    assert_eq!(slow.await.unwrap().unwrap(), "last word");
}

#[tokio::test(flavor = "current_thread")]
async fn frames_that_make_no_sense_are_answered_or_end_the_connection() {
    let (_directory, path, _stop) = serving(Server::new().frame_max(1000)).await;
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let cases = [
        (request(2, 0, "test.Echo", "Echo"), Code::InvalidArgument, "even stream id"),
        (request(3, flag::REMOTE_OPEN, "test.Echo", "Echo"), Code::Unimplemented, "a stream"),
        (
            FrameHeader { length: 0, stream: 5, kind: Kind::Response, flags: 0 }.to_bytes().to_vec(),
            Code::InvalidArgument,
            "a response",
        ),
        (request(7, 0, &"s".repeat(2000), "Echo"), Code::ResourceExhausted, "too large"),
    ];
    for (bytes, code, what) in cases {
        stream.write_all(&bytes).await.unwrap();
        let (_, response) = read_response(&mut stream).await;
        assert_eq!(response.status.unwrap().code, code.number(), "{what}");
    }
    let data = FrameHeader { length: 0, stream: 3, kind: Kind::Data, flags: flag::NO_DATA };
    stream.write_all(&data.to_bytes()).await.unwrap();
    stream.write_all(&request(9, 0, "test.Echo", "Echo")).await.unwrap();
    let (header, response) = read_response(&mut stream).await;
    assert_eq!((header.stream, response.status), (9, None), "data for a refused stream is passed over");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap();
    assert!(read.is_err() || rest.is_empty(), "closed");
}

#[tokio::test(flavor = "current_thread")]
async fn calls_beyond_the_bound_are_refused_and_the_others_go_on() {
    let (_directory, path, _stop) = serving(Server::new().in_flight_max(2)).await;
    let client = Client::connect(&path).await.unwrap();
    let slow: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "Slow", "ok", LIMIT).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = call(&client, "Echo", "", LIMIT).await.unwrap_err();
    assert_eq!(refused.status().unwrap().code, Code::ResourceExhausted);
    for task in slow {
        assert_eq!(task.await.unwrap().unwrap(), "ok");
    }
    assert_eq!(call(&client, "Echo", "room again", LIMIT).await.unwrap(), "room again");
}

#[tokio::test(flavor = "current_thread")]
async fn other_users_are_not_served() {
    let nobody_is = u32::MAX - 1;
    let (_directory, path, _stop) = serving(Server::new().only_uid(nobody_is)).await;
    let client = Client::connect(&path).await.unwrap();
    assert!(call(&client, "Echo", "", LIMIT).await.unwrap_err().is_disconnected());
}

#[tokio::test(flavor = "current_thread")]
async fn paths_may_be_longer_than_the_kernels_field() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let path = deep.join("socket");
    let listener = socket::bind(&path).unwrap();
    let server = Server::new().service("test.Echo", Arc::new(Echo));
    tokio::spawn(async move { server.serve(&listener, std::future::pending()).await });
    let client = Client::connect(&path).await.unwrap();
    assert_eq!(call(&client, "Echo", "far", LIMIT).await.unwrap(), "far");
    assert!(socket::connect_now(&path).is_ok());
    assert!(path.exists());
}
