//! One 512-byte header block.

use super::TarError;
use super::number::{number, text};

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// A block as read.
pub type Block = [u8; BLOCK];

/// The dialect a block is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Before POSIX: no prefix, no device numbers.
    V7,
    /// POSIX, also with PAX records before it.
    Ustar,
    /// Schily's: a shorter prefix.
    Star,
    /// GNU: no prefix.
    Gnu,
}

/// The fields of a header block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Dialect.
    pub dialect: Dialect,
    /// Name with prefix.
    pub name: Vec<u8>,
    /// Link target.
    pub link: Vec<u8>,
    /// Type byte.
    pub kind: u8,
    /// Permission bits.
    pub mode: i64,
    /// Owner.
    pub uid: i64,
    /// Group.
    pub gid: i64,
    /// Stored size.
    pub size: i64,
    /// Modification time.
    pub mtime: i64,
    /// Device major.
    pub major: i64,
    /// Device minor.
    pub minor: i64,
}

/// Whether a block is all zeros.
#[must_use]
pub fn is_zero(block: &Block) -> bool {
    block.iter().all(|b| *b == 0)
}

impl Header {
    /// Reads a block whose checksum must be right, by unsigned or (old) signed addition.
    ///
    /// # Errors
    /// A wrong checksum or number.
    pub fn parse(block: &Block) -> Result<Self, TarError> {
        check_sum(block)?;
        let dialect = dialect(block);
        let size = number(&block[124..136])?;
        if size < 0 {
            return Err(TarError::Header("the size is negative"));
        }
        let (major, minor) = match dialect {
            Dialect::V7 => (0, 0),
            _ => (number(&block[329..337])?, number(&block[337..345])?),
        };
        Ok(Self {
            dialect,
            name: name(block, dialect),
            link: text(&block[157..257]).to_vec(),
            kind: block[156],
            mode: number(&block[100..108])?,
            uid: number(&block[108..116])?,
            gid: number(&block[116..124])?,
            size,
            mtime: number(&block[136..148])?,
            major,
            minor,
        })
    }
}

fn check_sum(block: &Block) -> Result<(), TarError> {
    let stored = number(&block[148..156])?;
    let (mut unsigned, mut signed) = (0i64, 0i64);
    for (at, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&at) { b' ' } else { *byte };
        unsigned += i64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    if stored == unsigned || stored == signed {
        return Ok(());
    }
    Err(TarError::Header("wrong checksum"))
}

fn dialect(block: &Block) -> Dialect {
    match (&block[257..263], &block[263..265]) {
        (b"ustar\0", b"00") if &block[508..512] == b"tar\0" => Dialect::Star,
        (b"ustar\0", _) => Dialect::Ustar,
        (b"ustar ", b" \0") => Dialect::Gnu,
        _ => Dialect::V7,
    }
}

fn name(block: &Block, dialect: Dialect) -> Vec<u8> {
    let prefix = match dialect {
        Dialect::Ustar => text(&block[345..500]),
        Dialect::Star => text(&block[345..476]),
        Dialect::V7 | Dialect::Gnu => &[],
    };
    let name = text(&block[..100]);
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}
