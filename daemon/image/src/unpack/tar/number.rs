//! Numbers and texts in tar fields.

use super::TarError;

/// The text of a field up to its first zero byte.
#[must_use]
pub fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    &field[..end]
}

/// A number: octal with blanks around, or big-endian two's complement when the first bit is set.
///
/// # Errors
/// Other characters, or more than 63 bits.
pub fn number(field: &[u8]) -> Result<i64, TarError> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => binary(field),
        _ => octal(field),
    }
}

fn binary(field: &[u8]) -> Result<i64, TarError> {
    let negative = field[0] & 0x40 != 0;
    let flip = if negative { 0xff } else { 0 };
    let mut value: u64 = 0;
    for (at, byte) in field.iter().enumerate() {
        let mut byte = byte ^ flip;
        if at == 0 {
            byte &= 0x7f;
        }
        if value >> 56 != 0 {
            return Err(TarError::Header("a number has more than 63 bits"));
        }
        value = value << 8 | u64::from(byte);
    }
    let value = i64::try_from(value).map_err(|_| TarError::Header("a number has more than 63 bits"))?;
    Ok(if negative { !value } else { value })
}

fn octal(field: &[u8]) -> Result<i64, TarError> {
    let blank = |b: &u8| matches!(b, b' ' | 0);
    let start = field.iter().position(|b| !blank(b)).unwrap_or(field.len());
    let end = field.iter().rposition(|b| !blank(b)).map_or(start, |at| at + 1);
    let digits = text(&field[start..end]);
    let mut value: u64 = 0;
    for digit in digits {
        if !(b'0'..=b'7').contains(digit) {
            return Err(TarError::Header("a number is not octal"));
        }
        value = value
            .checked_mul(8)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .ok_or(TarError::Header("a number has more than 63 bits"))?;
    }
    i64::try_from(value).map_err(|_| TarError::Header("a number has more than 63 bits"))
}

/// A decimal number of PAX records, no sign unless `-`, nothing around it.
#[must_use]
pub fn decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A PAX time: seconds with an optional fraction, cut to nanoseconds.
#[must_use]
pub fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (whole, fraction) = match text.iter().position(|b| *b == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[text.len()..]),
    };
    let seconds = decimal(whole)?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut nanos: u32 = 0;
    for at in 0..9 {
        let digit = fraction.get(at).map_or(0, |b| u32::from(b - b'0'));
        nanos = nanos * 10 + digit;
    }
    if whole.starts_with(b"-") && nanos != 0 {
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos));
    }
    Some((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_number_forms_are_read() {
        assert_eq!(number(b"0000644\0").unwrap(), 0o644);
        assert_eq!(number(b"   644 \0").unwrap(), 0o644);
        assert_eq!(number(b"\0\0\0\0").unwrap(), 0);
        assert_eq!(number(&[0x80, 0, 0, 0, 0x12, 0x34, 0x56, 0x78]).unwrap(), 0x1234_5678);
        assert_eq!(number(&[0xff; 8]).unwrap(), -1);
        let mut max = [0xff; 12];
        max[..4].copy_from_slice(&[0x80, 0, 0, 0]);
        max[4] = 0x7f;
        assert_eq!(number(&max).unwrap(), i64::MAX);
        max[3] = 1;
        assert!(number(&max).is_err());
        assert!(number(b"12a").is_err());
        assert!(number(b"8").is_err());
        assert!(number(b"0x1").is_err());
    }

    #[test]
    fn times_keep_nanoseconds_and_sign() {
        assert_eq!(time(b"1.5"), Some((1, 500_000_000)));
        assert_eq!(time(b"1.1234567899"), Some((1, 123_456_789)));
        assert_eq!(time(b"-1.5"), Some((-2, 500_000_000)));
        assert_eq!(time(b"-0.25"), Some((-1, 750_000_000)));
        assert_eq!(time(b"7"), Some((7, 0)));
        assert_eq!(time(b"7."), Some((7, 0)));
        for bad in [&b""[..], b".", b"a", b"1.a", b"+1", b"1.-5"] {
            assert_eq!(time(bad), None, "{bad:?}");
        }
    }
}
