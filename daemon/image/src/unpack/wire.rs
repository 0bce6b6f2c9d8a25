//! The talk between daemon and worker over one stream socket: length-prefixed JSON, handles beside the first frame,
//! then (when the layer comes through a spool file) bare counts of bytes that may be read.

use super::limits::Limits;
use super::report::{Failure, Report};
use berth_snapshot::digest::Algorithm;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Largest report: several hundred thousand needs. A layer with more is refused.
const MAX_FRAME: usize = 64 << 20;

/// Bytes in JSON: each byte is the character of the same number, so that names that are no UTF-8 survive and usual
/// ones stay short.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteText(pub Vec<u8>);

impl Serialize for ByteText {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0.iter().map(|byte| char::from(*byte)).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for ByteText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(|c| u8::try_from(u32::from(c))).collect();
        bytes.map(Self).map_err(|_| serde::de::Error::custom("a byte is above 255"))
    }
}

/// What a worker is asked to do. The layer's directory and the source of its bytes come as handles beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Whether the diffID is to be computed with SHA-512.
    pub sha512: bool,
    /// Bounds.
    pub limits: Limits,
    /// How the bytes come.
    pub source: Source,
}

impl Request {
    /// The hash function for the diffID.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        if self.sha512 { Algorithm::Sha512 } else { Algorithm::Sha256 }
    }
}

/// How a worker gets the compressed layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// From a pipe; whole when so many bytes have come.
    Pipe {
        /// The layer's compressed size.
        size: u64,
    },
    /// From a file that is still being written; counts of readable bytes come over the socket.
    Spool {
        /// The layer's compressed size.
        size: u64,
    },
}

/// A worker's answer.
pub type Answer = Result<Report, Failure>;

/// Sends `request` with its two handles.
///
/// # Errors
/// When the worker is gone.
pub fn send_request(
    socket: &UnixStream,
    request: &Request,
    dir: BorrowedFd<'_>,
    data: BorrowedFd<'_>,
) -> io::Result<()> {
    let body = serde_json::to_vec(request)?;
    let length = frame_length(body.len())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let handles = [dir, data];
    if !beside.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other("no room for the worker's handles"));
    }
    let sent = sendmsg(socket.as_fd(), &[IoSlice::new(&length)], &mut beside, SendFlags::NOSIGNAL)?;
    let mut socket = socket;
    socket.write_all(length.get(sent..).unwrap_or_default())?;
    socket.write_all(&body)
}

/// Takes a request and its two handles: the layer's directory and the data.
///
/// # Errors
/// When the other side is gone or speaks otherwise.
pub fn receive_request(socket: &UnixStream) -> io::Result<(Request, OwnedFd, OwnedFd)> {
    let mut length = [0u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut length)];
    let got = recvmsg(socket.as_fd(), &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let mut handles = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            handles.extend(fds);
        }
    }
    let mut socket = socket;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    socket.read_exact(length.get_mut(got.bytes..).unwrap_or_default())?;
    let request = serde_json::from_slice(&read_body(&mut socket, length)?)?;
    let mut handles = handles.into_iter();
    match (handles.next(), handles.next()) {
        (Some(dir), Some(data)) => Ok((request, dir, data)),
        _ => Err(io::Error::other("the request came without its handles")),
    }
}

/// Sends the answer.
///
/// # Errors
/// When the daemon is gone, or the answer is larger than a frame.
pub fn send_answer(mut socket: &UnixStream, answer: &Answer) -> io::Result<()> {
    let body = serde_json::to_vec(answer)?;
    socket.write_all(&frame_length(body.len())?)?;
    socket.write_all(&body)
}

/// Takes the answer as it is, without looking into it.
///
/// # Errors
/// When the worker died before it answered, or announced more than a frame.
pub async fn receive_answer(socket: &tokio::net::UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0u8; 4];
    read_async(socket, &mut length).await?;
    let mut body = vec![0; announced(length)?];
    read_async(socket, &mut body).await?;
    Ok(body)
}

/// Reads an answer.
///
/// # Errors
/// When it is none.
pub fn parse_answer(body: &[u8]) -> io::Result<Answer> {
    Ok(serde_json::from_slice(body)?)
}

/// As `read_exact`, on a socket that others write to at the same time.
async fn read_async(socket: &tokio::net::UnixStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        socket.readable().await?;
        match socket.try_read(&mut buffer[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn frame_length(length: usize) -> io::Result<[u8; 4]> {
    if length > MAX_FRAME {
        return Err(io::Error::other(format!("a frame of {length} bytes is more than {MAX_FRAME}")));
    }
    Ok(u32::try_from(length).map_err(io::Error::other)?.to_le_bytes())
}

fn announced(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    frame_length(length)?;
    Ok(length)
}

fn read_body(socket: &mut impl Read, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let mut body = vec![0; announced(length)?];
    socket.read_exact(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_byte_survives_json() {
        let all = ByteText((0..=255).collect());
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<ByteText>(&text).unwrap(), all);
        assert_eq!(serde_json::to_string(&ByteText(b"usr/bin".to_vec())).unwrap(), "\"usr/bin\"");
        assert!(serde_json::from_str::<ByteText>("\"\u{100}\"").is_err());
    }

    #[test]
    fn handles_travel_with_the_request() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        let dir = std::fs::File::open("/").unwrap();
        let source = Source::Pipe { size: 7 };
        let request = Request { sha512: false, limits: Limits::default(), source };
        send_request(&here, &request, dir.as_fd(), write.as_fd()).unwrap();
        drop(write);
        let (got, _dir, data) = receive_request(&there).unwrap();
        assert_eq!(got, request);
        std::fs::File::from(data).write_all(b"through").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
