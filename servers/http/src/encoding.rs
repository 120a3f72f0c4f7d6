//! The compressed forms that the client can read.

/// The encoding of a compressed file that lies beside the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Brotli: its files are smaller, so it is preferred.
    Brotli,
    /// Gzip.
    Gzip,
}

impl Encoding {
    /// All encodings, the preferred one first.
    pub const ALL: [Encoding; 2] = [Encoding::Brotli, Encoding::Gzip];

    /// Returns the name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Gzip => "gzip",
        }
    }

    /// Returns the ending of the names of files in this form.
    pub fn suffix(self) -> &'static str {
        match self {
            Encoding::Brotli => ".br",
            Encoding::Gzip => ".gz",
        }
    }
}

/// Returns whether an `Accept-Encoding` allows this encoding: it names the encoding or a star, and
/// the weight is not 0.
pub fn is_accepted(value: &[u8], encoding: Encoding) -> bool {
    let mut by_star = false;
    for item in value.split(|&byte| byte == b',') {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let is_wanted = !parts.any(is_zero_weight);
        if name.eq_ignore_ascii_case(encoding.name().as_bytes()) {
            return is_wanted;
        }
        by_star |= name == b"*" && is_wanted;
    }
    by_star
}

/// Returns whether a parameter is `q=0`, or the same with more zeros.
fn is_zero_weight(parameter: &[u8]) -> bool {
    match parameter {
        [b'q' | b'Q', b'=', weight @ ..] => weight.iter().all(|&byte| byte == b'0' || byte == b'.'),
        _ => false,
    }
}
