//! Decompression by what the bytes are, not by what the manifest says they are: gzip of any number of members, zstd
//! with any number of frames, or plain tar.

use std::io::{self, BufRead, BufReader, Read};

/// A zstd window above this is refused; it is what the decoder would have to keep in memory.
const MAX_WINDOW_LOG: u32 = 27;
const BUFFER: usize = 128 << 10;

/// Opens the right decoder over `input`.
///
/// # Errors
/// When the first bytes cannot be read.
pub fn open<R: Read + Send + 'static>(input: R) -> io::Result<Box<dyn Read + Send>> {
    let mut input = Peek::new(BufReader::with_capacity(BUFFER, input))?;
    let magic = input.first;
    if magic.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input)));
    }
    let skippable = magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18];
    if magic == [0x28, 0xb5, 0x2f, 0xfd] || skippable {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        return Ok(Box::new(decoder));
    }
    input.fill_buf()?;
    Ok(Box::new(input))
}

/// The first four bytes, looked at and given back: a pipe may bring them one by one.
struct Peek<R> {
    first: [u8; 4],
    have: usize,
    given: usize,
    rest: R,
}

impl<R: BufRead> Peek<R> {
    fn new(mut rest: R) -> io::Result<Self> {
        let (mut first, mut have) = ([0u8; 4], 0);
        while have < first.len() {
            let got = rest.read(&mut first[have..])?;
            if got == 0 {
                break;
            }
            have += got;
        }
        Ok(Self { first, have, given: 0, rest })
    }
}

impl<R: BufRead> Read for Peek<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.have {
            return self.rest.read(buffer);
        }
        let ready = &self.first[self.given..self.have];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.given += count;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Peek<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.given == self.have { self.rest.fill_buf() } else { Ok(&self.first[self.given..self.have]) }
    }

    fn consume(&mut self, count: usize) {
        if self.given == self.have {
            self.rest.consume(count);
        } else {
            self.given += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::{Cursor, Write};

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn all(data: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        open(Cursor::new(data))?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn each_kind_is_known_by_its_bytes() {
        let zstd = |data: &[u8]| zstd::encode_all(data, 1).unwrap();
        let skip = [&[0x52, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &zstd(b"after")].concat();
        assert_eq!(all(gzip(b"one")).unwrap(), b"one");
        assert_eq!(all([gzip(b"one"), gzip(b""), gzip(b"two")].concat()).unwrap(), b"onetwo");
        assert_eq!(all([zstd(b"one"), zstd(b"two")].concat()).unwrap(), b"onetwo");
        assert_eq!(all(skip).unwrap(), b"after");
        assert_eq!(all(b"plain".to_vec()).unwrap(), b"plain");
        assert_eq!(all(Vec::new()).unwrap(), b"");
        assert_eq!(all(b"ab".to_vec()).unwrap(), b"ab");
    }

    #[test]
    fn cut_streams_and_garbage_behind_them_are_errors() {
        let whole = gzip(&[7; 5000]);
        assert!(all(whole[..whole.len() - 5].to_vec()).is_err());
        assert!(all([whole, b"garbage".to_vec()].concat()).is_err());
        let whole = zstd::encode_all(&[7u8; 5000][..], 1).unwrap();
        assert!(all(whole[..whole.len() - 2].to_vec()).is_err());
    }
}
