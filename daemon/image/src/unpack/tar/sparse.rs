//! The four ways to write a file with holes: GNU's old header, and PAX 0.0, 0.1 and 1.0.

use super::TarError;
use super::header::{BLOCK, Block};
use super::number::{decimal, number};

/// A stretch of a file that has data: offset and length.
pub type Extent = (u64, u64);

/// Most extents a map may have, and most bytes its text may take.
pub const MAX_EXTENTS: usize = 1 << 16;
const MAX_MAP: usize = 1 << 20;

/// Checks that extents ascend, do not overlap and stay inside `real_size`, and that together they are `stored`.
///
/// # Errors
/// Otherwise.
pub fn check(extents: &[Extent], real_size: u64, stored: u64) -> Result<(), TarError> {
    let (mut end, mut sum) = (0u64, 0u64);
    for (offset, length) in extents {
        let next = offset.checked_add(*length).ok_or(TarError::Sparse("an extent overflows"))?;
        if *offset < end || next > real_size {
            return Err(TarError::Sparse("extents overlap or leave the file"));
        }
        end = next;
        sum = sum.checked_add(*length).ok_or(TarError::Sparse("extents overflow"))?;
    }
    if sum != stored {
        return Err(TarError::Sparse("extents and stored data differ in size"));
    }
    Ok(())
}

/// The map in a GNU header block and its extension blocks, and the real size.
///
/// # Errors
/// Bad numbers or too many extents.
pub fn gnu(
    block: &Block,
    mut next: impl FnMut() -> Result<Block, TarError>,
) -> Result<(Vec<Extent>, u64), TarError> {
    let real = unsigned(&block[483..495])?;
    let mut extents = Vec::new();
    take(&block[386..482], &mut extents)?;
    let mut more = block[482] != 0;
    while more {
        let block = next()?;
        take(&block[..504], &mut extents)?;
        more = block[504] != 0;
    }
    Ok((extents, real))
}

fn take(fields: &[u8], extents: &mut Vec<Extent>) -> Result<(), TarError> {
    for pair in fields.chunks_exact(24) {
        if pair[0] == 0 {
            break;
        }
        push(extents, (unsigned(&pair[..12])?, unsigned(&pair[12..])?))?;
    }
    Ok(())
}

fn push(extents: &mut Vec<Extent>, extent: Extent) -> Result<(), TarError> {
    if extents.len() >= MAX_EXTENTS {
        return Err(TarError::TooBig("a sparse map"));
    }
    extents.push(extent);
    Ok(())
}

fn unsigned(field: &[u8]) -> Result<u64, TarError> {
    u64::try_from(number(field)?).map_err(|_| TarError::Sparse("a number is negative"))
}

/// The map of PAX 0.0 and 0.1: numbers in pairs.
///
/// # Errors
/// Odd counts, bad numbers, too many.
pub fn pairs(numbers: &[&[u8]]) -> Result<Vec<Extent>, TarError> {
    if !numbers.len().is_multiple_of(2) {
        return Err(TarError::Sparse("an odd count of numbers"));
    }
    let mut extents = Vec::new();
    for pair in numbers.chunks_exact(2) {
        push(&mut extents, (plain(pair[0])?, plain(pair[1])?))?;
    }
    Ok(extents)
}

fn plain(text: &[u8]) -> Result<u64, TarError> {
    let value = decimal(text).ok_or(TarError::Sparse("not a number"))?;
    u64::try_from(value).map_err(|_| TarError::Sparse("a number is negative"))
}

/// The map of PAX 1.0, decimal lines at the head of the data, filled up to a block; also how many bytes it took.
///
/// # Errors
/// Bad numbers, too many, or no end.
pub fn lines(mut next: impl FnMut() -> Result<Block, TarError>) -> Result<(Vec<Extent>, u64), TarError> {
    let (mut text, mut at) = (Vec::new(), 0);
    let mut line = |text: &mut Vec<u8>| -> Result<u64, TarError> {
        loop {
            if let Some(end) = text[at..].iter().position(|b| *b == b'\n') {
                let value = plain(&text[at..at + end])?;
                at += end + 1;
                return Ok(value);
            }
            if text.len() >= MAX_MAP {
                return Err(TarError::TooBig("a sparse map"));
            }
            text.extend_from_slice(&next()?);
        }
    };
    let count = line(&mut text)?;
    let mut extents = Vec::new();
    for _ in 0..count {
        let extent = (line(&mut text)?, line(&mut text)?);
        push(&mut extents, extent)?;
    }
    debug_assert!(text.len().is_multiple_of(BLOCK));
    Ok((extents, u64::try_from(text.len()).unwrap_or(u64::MAX)))
}
