//! Output as it was read, in chunks of any size, becomes whole records.

use memchr::memchr;

use super::{Stream, stamp};
use crate::time::Timestamp;

/// Content bytes of one record unless somebody asks for another limit.
pub const DEFAULT_LINE_MAX: usize = 16_384;

/// `<time> <stream> F `
const PREFIX_LEN: usize = stamp::LEN + 10;

/// Where the tag is in the prefix.
const TAG: usize = PREFIX_LEN - 2;

/// Splits one stream's output. Holds the beginning of a line whose end has not been read, at most one record of it.
#[derive(Debug)]
pub struct Splitter {
    stream: Stream,
    line_max: usize,
    tail: Vec<u8>,
}

impl Splitter {
    /// Records of `line_max` content bytes; 0 means the default.
    #[must_use]
    pub fn new(stream: Stream, line_max: usize) -> Self {
        let line_max = if line_max == 0 { DEFAULT_LINE_MAX } else { line_max };
        Self { stream, line_max, tail: Vec::new() }
    }

    /// Appends the records of `chunk`, read at `at`, to `out`, and stops early once `out` holds `out_max` bytes or
    /// more. Returns how much of the chunk was taken; `out` always holds whole records.
    #[must_use]
    pub fn push(&mut self, at: Timestamp, chunk: &[u8], out: &mut Vec<u8>, out_max: usize) -> usize {
        let mut writer = Writer::new(at, self.stream, out);
        let mut rest = self.finish_tail(chunk, &mut writer);
        while writer.out.len() < out_max && !rest.is_empty() {
            let (line, ended) = match memchr(b'\n', rest) {
                Some(end) => (&rest[..end], true),
                None => (rest, false),
            };
            if line.len() > self.line_max {
                writer.record(b'P', &line[..self.line_max]);
                rest = &rest[self.line_max..];
            } else if ended {
                writer.record(b'F', line);
                rest = &rest[line.len() + 1..];
            } else {
                self.tail.extend_from_slice(line);
                rest = &[];
            }
        }
        chunk.len() - rest.len()
    }

    /// Completes the line begun by earlier chunks as far as this chunk goes; returns what is left of the chunk.
    fn finish_tail<'c>(&mut self, chunk: &'c [u8], writer: &mut Writer<'_>) -> &'c [u8] {
        if self.tail.is_empty() {
            return chunk;
        }
        let room = self.line_max - self.tail.len();
        let (taken, ended) = match memchr(b'\n', chunk) {
            Some(end) if end <= room => (end, true),
            _ => (chunk.len().min(room), false),
        };
        self.tail.extend_from_slice(&chunk[..taken]);
        let rest = &chunk[taken..];
        if ended {
            writer.record(b'F', &self.tail);
            self.tail.clear();
            return &rest[1..];
        }
        if !rest.is_empty() {
            writer.record(b'P', &self.tail);
            self.tail.clear();
        }
        rest
    }

    /// The stream has ended: what was held back becomes the last record, tagged F although no newline came.
    pub fn finish(&mut self, at: Timestamp, out: &mut Vec<u8>) {
        if !self.tail.is_empty() {
            Writer::new(at, self.stream, out).record(b'F', &self.tail);
        }
        self.tail = Vec::new();
    }

    /// Gives memory back that holds nothing: the stream pauses.
    pub fn release(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }
}

struct Writer<'o> {
    prefix: [u8; PREFIX_LEN],
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    fn new(at: Timestamp, stream: Stream, out: &'o mut Vec<u8>) -> Self {
        let mut prefix = [b' '; PREFIX_LEN];
        prefix[..stamp::LEN].copy_from_slice(&stamp::format(at));
        prefix[stamp::LEN + 1..TAG - 1].copy_from_slice(stream.word().as_bytes());
        Self { prefix, out }
    }

    fn record(&mut self, tag: u8, content: &[u8]) {
        self.prefix[TAG] = tag;
        self.out.reserve(PREFIX_LEN + content.len() + 1);
        self.out.extend_from_slice(&self.prefix);
        self.out.extend_from_slice(content);
        self.out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const AT: Timestamp = Timestamp(1_796_057_516_123_456_789);

    /// All records of an output, read in chunks of `step` bytes, with an output limit of `out_max`.
    fn split(output: &[u8], step: usize, line_max: usize, out_max: usize) -> Vec<u8> {
        let mut splitter = Splitter::new(Stream::Stdout, line_max);
        let mut all = Vec::new();
        for mut chunk in output.chunks(step) {
            while !chunk.is_empty() {
                let mut out = Vec::new();
                let taken = splitter.push(AT, chunk, &mut out, out_max);
                assert!(out.is_empty() || out.ends_with(b"\n"), "whole records only");
                chunk = &chunk[taken..];
                all.extend(out);
            }
        }
        splitter.finish(AT, &mut all);
        all
    }

    fn tags(log: &[u8]) -> Vec<(char, Vec<u8>)> {
        log.split_inclusive(|byte| *byte == b'\n')
            .map(|line| parse(line).unwrap())
            .map(|record| (if record.full { 'F' } else { 'P' }, record.content.to_vec()))
            .collect()
    }

    #[test]
    fn a_record_to_the_byte() {
        let wanted = b"2026-11-30T16:51:56.123456789Z stdout F hello\n";
        assert_eq!(split(b"hello\n", 99, 0, 9999), wanted);
        let mut out = Vec::new();
        let mut errors = Splitter::new(Stream::Stderr, 0);
        assert_eq!(errors.push(AT, b"x", &mut out, 99), 1);
        errors.finish(AT, &mut out);
        assert_eq!(out, b"2026-11-30T16:51:56.123456789Z stderr F x\n");
    }

    #[test]
    fn long_lines_become_pieces() {
        let expect = |output: &[u8], wanted: &[(char, &str)]| {
            let wanted: Vec<_> = wanted.iter().map(|(tag, text)| (*tag, text.as_bytes().to_vec())).collect();
            for step in 1..=output.len() {
                assert_eq!(tags(&split(output, step, 4, 9999)), wanted, "{output:?} by {step}");
            }
        };
        expect(b"abcd\n", &[('F', "abcd")]);
        expect(b"abcde\n", &[('P', "abcd"), ('F', "e")]);
        expect(b"abcdefgh\n\nx", &[('P', "abcd"), ('F', "efgh"), ('F', ""), ('F', "x")]);
        expect(b"abcdefgh", &[('P', "abcd"), ('F', "efgh")]);
        expect(b"\n\n", &[('F', ""), ('F', "")]);
    }

    /// However the output is cut into reads and writes, the log is the same and joins to the output.
    #[test]
    fn cutting_changes_nothing() {
        let mut seed = 7u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as usize
        };
        for _ in 0..300 {
            let output: Vec<u8> = (0..next() % 90).map(|_| b"ab\n\0\r\xff"[next() % 6]).collect();
            let line_max = 1 + next() % 9;
            let whole = split(&output, output.len().max(1), line_max, usize::MAX);
            for _ in 0..5 {
                assert_eq!(split(&output, 1 + next() % 20, line_max, 1 + next() % 200), whole);
            }
            let mut joined: Vec<u8> = Vec::new();
            for (tag, content) in tags(&whole) {
                assert!(content.len() <= line_max && !content.contains(&b'\n'));
                joined.extend(content);
                if tag == 'F' {
                    joined.push(b'\n');
                }
            }
            let mut wanted = output.clone();
            if !wanted.is_empty() && !wanted.ends_with(b"\n") {
                wanted.push(b'\n');
            }
            assert_eq!(joined, wanted);
        }
    }
}
