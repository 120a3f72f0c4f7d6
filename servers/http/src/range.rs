//! The parts of a file that the client wants.

use std::ops::Range;

/// The largest number of parts in one answer.
pub const MOST_PARTS: usize = 16;

/// The meaning of a `Range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The whole file: the range is not understood, or asks for too much.
    Whole,
    /// One part.
    Part(Range<u64>),
    /// Several parts, in the order of the request.
    Parts(Vec<Range<u64>>),
    /// No byte of the file: 416.
    Nothing,
}

/// Parses a `Range` for a file of this size.
pub fn wanted(value: &[u8], size: u64) -> Wanted {
    let Some(list) = value.split_at_checked(6).filter(|(unit, _)| unit.eq_ignore_ascii_case(b"bytes=")) else {
        return Wanted::Whole;
    };
    let mut parts = Vec::new();
    for item in list.1.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty()) {
        match part(item, size) {
            None => return Wanted::Whole,
            Some(part) if part.is_empty() => {}
            Some(part) => parts.push(part),
        }
        // Many small parts cost more than they are worth, and so do parts that overlap.
        if parts.len() > MOST_PARTS {
            return Wanted::Whole;
        }
    }
    let sum = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.end - part.start));
    match (parts.len(), sum) {
        (0, _) => Wanted::Nothing,
        (1, _) => Wanted::Part(parts.remove(0)),
        (_, sum) if sum > size => Wanted::Whole,
        _ => Wanted::Parts(parts),
    }
}

/// Parses one part. Returns `None` if it is not understood, and an empty part if the file has no
/// byte of it.
fn part(item: &[u8], size: u64) -> Option<Range<u64>> {
    let dash = item.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (number(item[..dash].trim_ascii())?, number(item[dash + 1..].trim_ascii())?);
    match (first, last) {
        (None, None) => None,
        (None, Some(count)) => Some(size.saturating_sub(count)..size),
        (Some(first), None) => Some(first.min(size)..size),
        (Some(first), Some(last)) if first > last => None,
        (Some(first), Some(last)) => Some(first.min(size)..last.saturating_add(1).min(size)),
    }
}

/// Parses a number; too large a number becomes the largest one. Returns `Some(None)` if there is no
/// digit, and `None` if it is not a number.
fn number(digits: &[u8]) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let step = |sum: u64, digit: &u8| {
        digit.is_ascii_digit().then(|| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    };
    digits.iter().try_fold(0, step).map(Some)
}
