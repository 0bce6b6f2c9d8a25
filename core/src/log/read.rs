//! A record read back, ours or another runtime's.

use super::{Stream, stamp};
use crate::time::Timestamp;

/// One record of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'l> {
    /// When it was read from the program.
    pub at: Timestamp,
    /// Where the program wrote it.
    pub stream: Stream,
    /// False if the line goes on in the next record of the same stream.
    pub full: bool,
    /// The bytes, without a newline.
    pub content: &'l [u8],
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The first word is no time.
    #[error("log record without a time")]
    Time,
    /// The second word is no stream.
    #[error("log record of an unknown stream")]
    Stream,
    /// The third word is neither P nor F.
    #[error("log record without a P or F tag")]
    Tag,
}

/// Reads one record, with or without its final newline.
///
/// # Errors
/// Names the first word that is not as it should be.
pub fn parse(line: &[u8]) -> Result<Record<'_>, ParseError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let at = words.next().and_then(stamp::parse).ok_or(ParseError::Time)?;
    let stream = match words.next() {
        Some(b"stdout") => Stream::Stdout,
        Some(b"stderr") => Stream::Stderr,
        _ => return Err(ParseError::Stream),
    };
    // Further tags may follow the first after a colon.
    let full = match words.next().and_then(|tags| tags.split(|byte| *byte == b':').next()) {
        Some(b"F") => true,
        Some(b"P") => false,
        _ => return Err(ParseError::Tag),
    };
    Ok(Record { at, stream, full, content: words.next().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_writers() {
        let record = parse(b"2016-10-06T00:17:09.669794202+02:00 stderr P:x  log content \n").unwrap();
        assert_eq!((record.stream, record.full), (Stream::Stderr, false));
        assert_eq!(record.content, b" log content ");
        assert_eq!(parse(b"1970-01-01T00:00:00Z stdout F").unwrap().content, b"");
    }

    #[test]
    fn torn_records_are_named() {
        assert_eq!(parse(b""), Err(ParseError::Time));
        assert_eq!(parse(b"1970-01-01T00:00:00Z"), Err(ParseError::Stream));
        assert_eq!(parse(b"1970-01-01T00:00:00Z std"), Err(ParseError::Stream));
        assert_eq!(parse(b"1970-01-01T00:00:00Z stdout"), Err(ParseError::Tag));
        assert_eq!(parse(b"1970-01-01T00:00:00Z stdout Full x"), Err(ParseError::Tag));
    }
}
