//! Entries of a tar in order, and their data.

use super::TarError;
use super::header::{BLOCK, Block, Header, is_zero};
use super::number::{decimal, text};
use super::pax::Pax;
use super::sparse::{self, Extent};
use std::io::{self, Read};

/// Long names and PAX headers larger than this are refused, as in Go.
const MAX_SPECIAL: u64 = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// Another name of an earlier file.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
}

/// One entry with all its extended headers applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path as written.
    pub name: Vec<u8>,
    /// Link target as written.
    pub link: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner; may be out of range.
    pub uid: i64,
    /// Group; may be out of range.
    pub gid: i64,
    /// Modification time.
    pub mtime: (i64, u32),
    /// Bytes of data stored in the archive.
    pub size: u64,
    /// Size of the file with its holes.
    pub real_size: u64,
    /// Where the stored bytes go, if the file has holes.
    pub extents: Option<Vec<Extent>>,
    /// Device numbers.
    pub device: (i64, i64),
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads entries from an uncompressed tar. [`Reader::next_entry`] leaves out what was not read of the entry before.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    left: u64,
    padding: u64,
}

impl<R: Read> Reader<R> {
    /// A reader at the first header.
    pub fn new(input: R) -> Self {
        Self { input, left: 0, padding: 0 }
    }

    /// The input, at whatever place reading has come to.
    pub fn into_inner(self) -> R {
        self.input
    }

    /// The next entry, or none at the end-of-archive mark or a clean end of input.
    ///
    /// # Errors
    /// Anything that is not a tar to the byte.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extra = Extra::default();
        loop {
            self.skip_rest()?;
            let Some(block) = self.header_block()? else {
                let dangling = extra.pax.is_some() || extra.name.is_some() || extra.link.is_some();
                return if dangling {
                    Err(TarError::Header("extended headers with nothing behind"))
                } else {
                    Ok(None)
                };
            };
            let header = Header::parse(&block)?;
            match header.kind {
                b'x' => extra.pax = Some(Pax::parse(&self.special(&header)?)?),
                b'g' => {
                    // Global records are read over, as in Go: they say nothing that a layer needs.
                    Pax::parse(&self.special(&header)?)?;
                }
                b'L' => extra.name = Some(text(&self.special(&header)?).to_vec()),
                b'K' => extra.link = Some(text(&self.special(&header)?).to_vec()),
                _ => return self.entry(&block, header, &extra).map(Some),
            }
        }
    }

    fn entry(&mut self, block: &Block, header: Header, extra: &Extra) -> Result<Entry, TarError> {
        let kind = kind(&header)?;
        let gnu_sparse = header.kind == b'S';
        let mut entry = Entry {
            name: header.name,
            link: header.link,
            kind,
            mode: u32::try_from(header.mode & 0o7777).unwrap_or(0),
            uid: header.uid,
            gid: header.gid,
            mtime: (header.mtime, 0),
            size: u64::try_from(header.size).unwrap_or(0),
            real_size: 0,
            extents: None,
            device: (header.major, header.minor),
            xattrs: Vec::new(),
        };
        if let Some(pax) = &extra.pax {
            pax.apply(&mut entry)?;
        }
        if let Some(name) = &extra.name {
            entry.name.clone_from(name);
        }
        if let Some(link) = &extra.link {
            entry.link.clone_from(link);
        }
        // Only regular files have data, whatever the size field of another entry says.
        self.expect(if kind == Kind::File { entry.size } else { 0 })?;
        entry.real_size = entry.size;
        if header.kind == 0 && entry.name.ends_with(b"/") {
            entry.kind = Kind::Directory;
            self.skip_rest()?;
        } else if kind == Kind::File {
            self.sparse(&mut entry, block, gnu_sparse, extra.pax.as_ref())?;
        }
        Ok(entry)
    }

    fn sparse(
        &mut self,
        entry: &mut Entry,
        block: &Block,
        gnu: bool,
        pax: Option<&Pax>,
    ) -> Result<(), TarError> {
        let (extents, real) = if gnu {
            // Extension blocks lie between header and data and are not part of the size.
            let (left, padding) = (self.left, self.padding);
            let map = sparse::gnu(block, || self.block())?;
            (self.left, self.padding) = (left, padding);
            map
        } else {
            let Some(found) = self.pax_sparse(entry, pax)? else { return Ok(()) };
            found
        };
        sparse::check(&extents, real, self.left)?;
        entry.real_size = real;
        entry.extents = Some(extents);
        Ok(())
    }

    fn pax_sparse(
        &mut self,
        entry: &mut Entry,
        pax: Option<&Pax>,
    ) -> Result<Option<(Vec<Extent>, u64)>, TarError> {
        let Some(pax) = pax else { return Ok(None) };
        let version = (pax.get(b"GNU.sparse.major"), pax.get(b"GNU.sparse.minor"));
        let in_data = match version {
            (Some(b"1"), Some(b"0")) => true,
            (Some(b"0"), Some(b"0" | b"1")) => false,
            (None, None) if pax.sparse_map().is_some() => false,
            _ => return Ok(None),
        };
        if let Some(name) = pax.get(b"GNU.sparse.name") {
            entry.name = name.to_vec();
        }
        let real = pax.get(b"GNU.sparse.size").or_else(|| pax.get(b"GNU.sparse.realsize"));
        let real = match real {
            Some(real) => decimal(real).and_then(|real| u64::try_from(real).ok()),
            None => Some(entry.size),
        };
        let real = real.ok_or(TarError::Sparse("the real size is no number"))?;
        let extents = if in_data {
            let (extents, took) = sparse::lines(|| self.data_block())?;
            debug_assert!(took <= entry.size);
            extents
        } else {
            sparse::pairs(&pax.sparse_map().unwrap_or_default())?
        };
        Ok(Some((extents, real)))
    }

    fn expect(&mut self, size: u64) -> Result<(), TarError> {
        let block = u64::try_from(BLOCK).unwrap_or(512);
        self.left = size;
        self.padding =
            size.checked_next_multiple_of(block).ok_or(TarError::Header("the size is absurd"))? - size;
        Ok(())
    }

    /// The body of an extended header.
    fn special(&mut self, header: &Header) -> Result<Vec<u8>, TarError> {
        let size = u64::try_from(header.size).unwrap_or(u64::MAX);
        if size > MAX_SPECIAL {
            return Err(TarError::TooBig("an extended header"));
        }
        self.expect(size)?;
        let mut body = vec![0; usize::try_from(size).unwrap_or(0)];
        self.read_exact(&mut body)?;
        self.skip_rest()?;
        Ok(body)
    }

    /// Data of the current entry; 0 at its end.
    ///
    /// # Errors
    /// When the archive ends inside the entry.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, TarError> {
        let want = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if want == 0 {
            return Ok(0);
        }
        let got = retry(|| self.input.read(&mut buffer[..want]))?;
        if got == 0 {
            return Err(TarError::Truncated);
        }
        self.left -= u64::try_from(got).unwrap_or(0);
        Ok(got)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), TarError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read(&mut buffer[done..])? {
                0 => return Err(TarError::Truncated),
                got => done += got,
            }
        }
        Ok(())
    }

    fn skip_rest(&mut self) -> Result<(), TarError> {
        let mut sink = [0u8; 8192];
        while self.read(&mut sink)? > 0 {}
        let padding = usize::try_from(std::mem::take(&mut self.padding)).unwrap_or(0);
        // The last entry's padding may be missing: some writers end right there.
        let mut done = 0;
        while done < padding {
            match retry(|| self.input.read(&mut sink[done..padding]))? {
                0 => break,
                got => done += got,
            }
        }
        Ok(())
    }

    fn data_block(&mut self) -> Result<Block, TarError> {
        let mut block = [0; BLOCK];
        self.read_exact(&mut block)?;
        Ok(block)
    }

    fn block(&mut self) -> Result<Block, TarError> {
        self.raw_block()?.ok_or(TarError::Truncated)
    }

    fn raw_block(&mut self) -> Result<Option<Block>, TarError> {
        let (mut block, mut done) = ([0u8; BLOCK], 0);
        while done < BLOCK {
            match retry(|| self.input.read(&mut block[done..]))? {
                0 if done == 0 => return Ok(None),
                0 => return Err(TarError::Truncated),
                got => done += got,
            }
        }
        Ok(Some(block))
    }

    fn header_block(&mut self) -> Result<Option<Block>, TarError> {
        let Some(block) = self.raw_block()? else { return Ok(None) };
        if !is_zero(&block) {
            return Ok(Some(block));
        }
        match self.raw_block()? {
            None => Ok(None),
            Some(second) if is_zero(&second) => Ok(None),
            Some(_) => Err(TarError::Header("a block of zeros inside the archive")),
        }
    }
}

#[derive(Default)]
struct Extra {
    pax: Option<Pax>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

fn kind(header: &Header) -> Result<Kind, TarError> {
    Ok(match header.kind {
        0 | b'0' | b'7' | b'S' => Kind::File,
        b'1' => Kind::HardLink,
        b'2' => Kind::Symlink,
        b'3' => Kind::Char,
        b'4' => Kind::Block,
        b'5' => Kind::Directory,
        b'6' => Kind::Fifo,
        other => return Err(TarError::Type(char::from(other))),
    })
}

fn retry(mut read: impl FnMut() -> io::Result<usize>) -> Result<usize, TarError> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map_err(TarError::Read),
        }
    }
}
