//! Frames: a header of ten bytes (length and stream id, big-endian u32 each, kind, flags), then the payload.

use std::io;

use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Length of a frame's header.
pub const HEADER_LEN: usize = 10;

/// Payload memory grows with what has arrived, by at most this much ahead of it.
const READ_STEP: usize = 64 << 10;

/// An oversized frame beyond this is no message but noise: the connection ends.
const SKIP_MAX: usize = 64 << 20;

/// The flags of a frame.
pub mod flag {
    /// The sender is not going to send more on this stream.
    pub const REMOTE_CLOSED: u8 = 1;
    /// The sender is going to send data on this stream.
    pub const REMOTE_OPEN: u8 = 2;
    /// This data frame carries no data.
    pub const NO_DATA: u8 = 4;
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens a stream.
    Request,
    /// Ends a stream.
    Response,
    /// Belongs to an open stream. Streams are not used here.
    Data,
    /// None of the three.
    Other(u8),
}

impl Kind {
    fn from_byte(byte: u8) -> Kind {
        match byte {
            1 => Kind::Request,
            2 => Kind::Response,
            3 => Kind::Data,
            other => Kind::Other(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Kind::Request => 1,
            Kind::Response => 2,
            Kind::Data => 3,
            Kind::Other(byte) => byte,
        }
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of payload.
    pub length: u32,
    /// Odd for streams that a client opened.
    pub stream: u32,
    /// What the frame is.
    pub kind: Kind,
    /// See [`flag`].
    pub flags: u8,
}

impl FrameHeader {
    /// The header on the wire.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8] = self.kind.byte();
        bytes[9] = self.flags;
        bytes
    }

    /// The header read from the wire. Every ten bytes are one: the checks are the reader's.
    pub fn from_bytes(bytes: [u8; HEADER_LEN]) -> FrameHeader {
        let [a, b, c, d, e, f, g, h, kind, flags] = bytes;
        FrameHeader {
            length: u32::from_be_bytes([a, b, c, d]),
            stream: u32::from_be_bytes([e, f, g, h]),
            kind: Kind::from_byte(kind),
            flags,
        }
    }
}

/// A frame could not be read or written. Only `TooLarge` leaves the connection usable.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The payload is over the limit of this connection; the reader has skipped it.
    #[error("frame of {length} bytes on stream {stream} is over the limit of {max}")]
    TooLarge {
        /// The stream it came on.
        stream: u32,
        /// Its length.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// The connection is at its end or broken.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
}

/// Reads one frame. `Ok(None)` is the peer's orderly end.
pub(super) async fn read_frame<R: AsyncRead + Unpin>(
    reader: &mut R,
    max: usize,
) -> Result<Option<(FrameHeader, Vec<u8>)>, FrameError> {
    let Some(header) = read_header(reader).await? else { return Ok(None) };
    let length = header.length as usize;
    if length > max {
        skip(reader, length).await?;
        return Err(FrameError::TooLarge { stream: header.stream, length, max });
    }
    let mut payload = Vec::new();
    while payload.len() < length {
        let step = (length - payload.len()).min(READ_STEP);
        payload.reserve(step);
        let got = (&mut *reader).take(step as u64).read_buf(&mut payload).await?;
        if got == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    Ok(Some((header, payload)))
}

async fn read_header<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Option<FrameHeader>> {
    let mut bytes = [0; HEADER_LEN];
    let mut have = 0;
    while have < HEADER_LEN {
        match reader.read(&mut bytes[have..]).await? {
            0 if have == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => have += got,
        }
    }
    Ok(Some(FrameHeader::from_bytes(bytes)))
}

async fn skip<R: AsyncRead + Unpin>(reader: &mut R, length: usize) -> io::Result<()> {
    if length > SKIP_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak ttrpc"));
    }
    let mut left = reader.take(length as u64);
    tokio::io::copy(&mut left, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Encodes a message with its header into one buffer, so that it leaves in one write.
pub(super) fn encode(
    stream: u32,
    kind: Kind,
    message: &impl Message,
    max: usize,
) -> Result<Vec<u8>, FrameError> {
    let length = message.encoded_len();
    let Some(length_u32) = u32::try_from(length).ok().filter(|_| length <= max) else {
        return Err(FrameError::TooLarge { stream, length, max });
    };
    let mut frame = Vec::with_capacity(HEADER_LEN + length);
    frame.extend_from_slice(&FrameHeader { length: length_u32, stream, kind, flags: 0 }.to_bytes());
    message.encode_raw(&mut frame);
    Ok(frame)
}

/// Writes frames until the queue ends or the peer goes.
pub(super) async fn write_all_frames<W: AsyncWrite + Unpin>(
    writer: &mut W,
    queue: &mut tokio::sync::mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(frame) = queue.recv().await {
        writer.write_all(&frame).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ttrpc::message::Request;

    /// Bytes written down from the protocol's text, not from this code.
    #[test]
    fn a_request_is_what_containerd_reads() {
        let request =
            Request { service: "s".into(), method: "m".into(), payload: vec![1], ..Default::default() };
        let frame = encode(3, Kind::Request, &request, 100).unwrap();
        let wanted = [0, 0, 0, 9, 0, 0, 0, 3, 1, 0, 0x0a, 1, b's', 0x12, 1, b'm', 0x1a, 1, 1];
        assert_eq!(frame, wanted);
    }

    #[test]
    fn headers_survive_the_wire() {
        for kind in [Kind::Request, Kind::Response, Kind::Data, Kind::Other(9)] {
            let header = FrameHeader { length: 0x0102_0304, stream: 0xfffe_fdfd, kind, flags: 5 };
            assert_eq!(FrameHeader::from_bytes(header.to_bytes()), header);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_oversized_frame_is_skipped_and_the_next_one_read() {
        let mut wire = FrameHeader { length: 20, stream: 1, kind: Kind::Data, flags: 0 }.to_bytes().to_vec();
        wire.extend_from_slice(&[7; 20]);
        wire.extend_from_slice(&FrameHeader { length: 2, stream: 3, kind: Kind::Data, flags: 0 }.to_bytes());
        wire.extend_from_slice(b"ok");
        let mut reader = wire.as_slice();
        let refused = read_frame(&mut reader, 10).await;
        assert!(
            matches!(refused, Err(FrameError::TooLarge { stream: 1, length: 20, max: 10 })),
            "{refused:?}"
        );
        let (header, payload) = read_frame(&mut reader, 10).await.unwrap().unwrap();
        assert_eq!((header.stream, payload.as_slice()), (3, b"ok".as_slice()));
        assert!(read_frame(&mut reader, 10).await.unwrap().is_none());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn noise_and_torn_frames_end_the_connection() {
        let mut http = b"GET / HTTP/1.1\r\n\r\n".as_slice();
        assert!(matches!(read_frame(&mut http, 1 << 20).await, Err(FrameError::Io(_))));
        let whole =
            encode(1, Kind::Request, &Request { service: "abc".into(), ..Default::default() }, 99).unwrap();
        for cut in 1..whole.len() {
            let mut torn = &whole[..cut];
            assert!(matches!(read_frame(&mut torn, 99).await, Err(FrameError::Io(_))), "cut at {cut}");
        }
    }
}
