//! Numbers as memcached reads them: with the C library and its habits. White space and a sign may
//! come before a number. White space or a NUL may come after it, and then anything. A number that
//! does not fit into 64 bits is an error. Other numbers are cut to the size that is wanted.

/// Parses a signed number of 32 bits, cut from 64 bits.
pub fn signed(word: &[u8]) -> Option<i32> {
    let (negative, magnitude) = parts(word)?;
    let limit = if negative { 1 << 63 } else { (1 << 63) - 1 };
    if magnitude > limit {
        return None;
    }
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    Some(value as i32)
}

/// Parses an unsigned number of 64 bits.
pub fn unsigned(word: &[u8]) -> Option<u64> {
    let (negative, magnitude) = parts(word)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    // As in memcached, a minus sign is accepted if the result looks positive.
    let is_large = value >> 63 == 1;
    if is_large && word.contains(&b'-') { None } else { Some(value) }
}

/// Parses an unsigned number of 32 bits, cut from 64 bits.
pub fn unsigned_short(word: &[u8]) -> Option<u32> {
    unsigned(word).map(|value| value as u32)
}

/// Returns whether a byte is white space in C.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

/// Returns whether there is a minus sign, and the value of the digits.
#[inline]
fn parts(word: &[u8]) -> Option<(bool, u64)> {
    let mut rest = word;
    while let [first, others @ ..] = rest
        && is_space(*first)
    {
        rest = others;
    }
    let negative = rest.first() == Some(&b'-');
    if let [b'-' | b'+', others @ ..] = rest {
        rest = others;
    }
    let (mut value, mut digits) = (0u64, 0);
    while let [digit @ b'0'..=b'9', others @ ..] = rest {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        (rest, digits) = (others, digits + 1);
    }
    match rest.first() {
        _ if digits == 0 => None,
        Some(byte) if !is_space(*byte) && *byte != 0 => None,
        _ => Some((negative, value)),
    }
}

/// Appends `value` in decimal.
#[inline]
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
