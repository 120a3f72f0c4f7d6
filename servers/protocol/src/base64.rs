//! Keys in base64, as memcached reads them: it skips characters that are no digits, and the digits
//! come in groups of four.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the value of a digit. Padding counts as a digit of value 0.
fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    };
    Some(value.into())
}

/// Decodes `text` into `out`, and returns the part of `out` that it fills.
///
/// Returns `None` if `text` is not base64, is empty, or does not fit into `out`.
pub fn decode<'a>(text: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let digits = || text.iter().copied().filter_map(|byte| value(byte).map(|value| (byte, value)));
    let count = digits().count();
    if count == 0 || count % 4 != 0 || out.len() < count / 4 * 3 {
        return None;
    }
    let (mut length, mut four, mut taken, mut padding) = (0, 0, 0, 0);
    for (byte, value) in digits() {
        four = four << 6 | value;
        taken += 1;
        padding += usize::from(byte == b'=');
        if taken == 4 {
            out[length..length + 3].copy_from_slice(&four.to_be_bytes()[1..]);
            length += 3;
            (four, taken) = (0, 0);
            match padding {
                0 => {}
                1 | 2 => {
                    length -= padding;
                    break;
                }
                _ => return None,
            }
        }
    }
    Some(&out[..length])
}

/// Appends `bytes` in base64.
pub fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    for three in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=three.len()].copy_from_slice(three);
        let four = u32::from_be_bytes(padded);
        for place in 0..4 {
            let digit = DIGITS[(four >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { digit } else { b'=' });
        }
    }
}
