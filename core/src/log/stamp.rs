//! RFC 3339 in UTC with nine digits of fraction: always 30 bytes, so that records sort and align.

use crate::time::Timestamp;

/// Length of the text.
pub(super) const LEN: usize = 30;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The text of a moment. Years outside 1970-9999 do not occur: the clock does not go there.
pub(super) fn format(at: Timestamp) -> [u8; LEN] {
    let (seconds, nanos) = (at.0.div_euclid(NANOS), at.0.rem_euclid(NANOS));
    let (year, month, day) = civil(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    digits(&mut text[0..4], year);
    digits(&mut text[5..7], month);
    digits(&mut text[8..10], day);
    digits(&mut text[11..13], second / 3600);
    digits(&mut text[14..16], second / 60 % 60);
    digits(&mut text[17..19], second % 60);
    digits(&mut text[20..29], nanos);
    text
}

fn digits(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + number.rem_euclid(10).to_le_bytes()[0];
        number /= 10;
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Counted from 0000-03-01, so that the leap day is the last of its year; 400 years are 146097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date, the inverse of `civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads RFC 3339 with any number of fraction digits up to nine, `Z` or a numeric offset: other runtimes' logs too.
pub(super) fn parse(text: &[u8]) -> Option<Timestamp> {
    let (head, rest) = text.split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| head[at] != byte) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| number(&head[range]);
    let date = days(number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let (nanos, zone) = fraction(rest)?;
    let seconds = date * DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
    seconds.checked_mul(NANOS)?.checked_add(nanos).map(Timestamp)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = text.split_at(length);
    let scale = 10i64.pow(u32::try_from(9usize.checked_sub(length)?).ok()?);
    (length > 0).then_some((number(digits)? * scale, zone))
}

fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let seconds = number(&[*h1, *h2])? * 3600 + number(&[*m1, *m2])? * 60;
            Some(if *sign == b'+' { seconds } else { -seconds })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(nanos: i64) -> String {
        String::from_utf8(format(Timestamp(nanos)).to_vec()).unwrap()
    }

    /// Reference values from date(1).
    #[test]
    fn known_moments() {
        assert_eq!(text(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(text(951_827_696_000_000_001), "2000-02-29T12:34:56.000000001Z");
        assert_eq!(text(1_796_057_516_123_456_789), "2026-11-30T16:51:56.123456789Z");
        assert_eq!(text(4_102_444_799_999_999_999), "2099-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn every_day_reads_back() {
        for day in (0..40_000).map(|day| day * DAY + day % DAY) {
            let at = Timestamp(day * NANOS + day);
            assert_eq!(parse(&format(at)), Some(at));
        }
    }

    #[test]
    fn other_writers_forms() {
        assert_eq!(parse(b"1970-01-01T01:00:00.5+01:00"), Some(Timestamp(500_000_000)));
        assert_eq!(parse(b"1970-01-01T00:00:00-00:30"), Some(Timestamp(1_800 * NANOS)));
        for bad in ["", "1970-01-01", "1970-01-01 00:00:00Z", "1970-01-01T00:00:00", "1970-01-01T00:00:00.Z"]
        {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse(b"1970-01-01T00:00:00.0000000001Z"), None);
        assert_eq!(parse(b"19x0-01-01T00:00:00Z"), None);
    }
}
