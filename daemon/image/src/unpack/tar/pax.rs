//! PAX extended headers.

use super::TarError;
use super::number::{decimal, time};
use super::reader::Entry;
use std::collections::BTreeMap;

/// Records by key. A later record of the same key replaces an earlier one; an empty value takes it away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pax {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    sparse: Vec<Vec<u8>>,
}

const XATTR: &[u8] = b"SCHILY.xattr.";

impl Pax {
    /// Reads the body of an `x` entry.
    ///
    /// # Errors
    /// Any record that is not `length key=value\n` to the byte.
    pub fn parse(mut body: &[u8]) -> Result<Self, TarError> {
        let mut pax = Self::default();
        while !body.is_empty() {
            let (record, rest) = split(body)?;
            body = rest;
            pax.add(record)?;
        }
        Ok(pax)
    }

    fn add(&mut self, record: &[u8]) -> Result<(), TarError> {
        let equals = record.iter().position(|b| *b == b'=').ok_or(TarError::Pax("no ="))?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        let text_key = matches!(key, b"path" | b"linkpath" | b"uname" | b"gname");
        if key.is_empty() || key.contains(&0) || (text_key && value.contains(&0)) {
            return Err(TarError::Pax("an empty key or a zero byte"));
        }
        match key {
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => self.add_sparse(key, value),
            _ => {
                self.records.insert(key.to_vec(), value.to_vec());
                Ok(())
            }
        }
    }

    /// The oldest sparse form repeats two keys in turn.
    fn add_sparse(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        let offset_next = self.sparse.len().is_multiple_of(2);
        if offset_next != (key == b"GNU.sparse.offset") || value.contains(&b',') {
            return Err(TarError::Pax("sparse records out of turn"));
        }
        self.sparse.push(value.to_vec());
        Ok(())
    }

    /// The value of a key; absent and empty are the same.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.records.get(key).map(Vec::as_slice).filter(|value| !value.is_empty())
    }

    /// The sparse map as numbers, from either of the two forms that keep it here.
    #[must_use]
    pub fn sparse_map(&self) -> Option<Vec<&[u8]>> {
        if !self.sparse.is_empty() {
            return Some(self.sparse.iter().map(Vec::as_slice).collect());
        }
        self.get(b"GNU.sparse.map").map(|map| map.split(|b| *b == b',').collect())
    }

    /// Replaces the fields of `entry` that have records here.
    ///
    /// # Errors
    /// Values that are no numbers.
    pub fn apply(&self, entry: &mut Entry) -> Result<(), TarError> {
        let set = |key: &[u8]| self.get(key);
        if let Some(path) = set(b"path") {
            entry.name = path.to_vec();
        }
        if let Some(link) = set(b"linkpath") {
            entry.link = link.to_vec();
        }
        if let Some(size) = set(b"size") {
            entry.size = decimal(size)
                .and_then(|size| u64::try_from(size).ok())
                .ok_or(TarError::Pax("size is no number"))?;
        }
        if let Some(uid) = set(b"uid") {
            entry.uid = decimal(uid).ok_or(TarError::Pax("uid is no number"))?;
        }
        if let Some(gid) = set(b"gid") {
            entry.gid = decimal(gid).ok_or(TarError::Pax("gid is no number"))?;
        }
        if let Some(mtime) = set(b"mtime") {
            entry.mtime = time(mtime).ok_or(TarError::Pax("mtime is no time"))?;
        }
        for (key, value) in &self.records {
            if let Some(name) = key.strip_prefix(XATTR) {
                entry.xattrs.push((name.to_vec(), value.clone()));
            }
        }
        Ok(())
    }
}

/// Cuts one record off: its length counts itself, the blank and the newline.
fn split(body: &[u8]) -> Result<(&[u8], &[u8]), TarError> {
    let blank = body.iter().take(20).position(|b| *b == b' ').ok_or(TarError::Pax("no length"))?;
    let length = decimal(&body[..blank]).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length >= 5).ok_or(TarError::Pax("bad length"))?;
    if length > body.len() || length <= blank + 1 {
        return Err(TarError::Pax("the length leaves the header"));
    }
    let (record, rest) = body.split_at(length);
    match record.split_last() {
        Some((b'\n', record)) => Ok((&record[blank + 1..], rest)),
        _ => Err(TarError::Pax("no newline at the end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_to_the_byte() {
        let pax = Pax::parse(b"12 path=abc\n9 a=b\nc\n".as_slice());
        assert!(pax.is_err());
        let pax = Pax::parse(b"12 path=abc\n10 k=1\n2=\n").unwrap();
        assert_eq!(pax.get(b"path"), Some(&b"abc"[..]));
        assert_eq!(pax.get(b"k"), Some(&b"1\n2="[..]));
        for bad in [
            &b"11 path=abc\n"[..],
            b"13 path=abc\n",
            b" path=abc\n",
            b"12 path=ab\0\n",
            b"5 =b\n",
            b"99999999999999999999 a=b\n",
            b"-6 a=b\n",
            b"12path=abcd\n",
            b"6 a=b",
        ] {
            assert!(Pax::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_last_of_a_key_wins_and_an_empty_value_takes_it_away() {
        let pax = Pax::parse(b"10 path=a\n10 path=b\n8 size=\n").unwrap();
        assert_eq!(pax.get(b"path"), Some(&b"b"[..]));
        assert_eq!(pax.get(b"size"), None);
    }
}
