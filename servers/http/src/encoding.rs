//! Which compressed forms the client can read.

/// A form in which a file may lie beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Brotli: smaller, so it is preferred.
    Brotli,
    /// Gzip.
    Gzip,
}

impl Encoding {
    /// All there are, the preferred one first.
    pub const ALL: [Encoding; 2] = [Encoding::Brotli, Encoding::Gzip];

    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Gzip => "gzip",
        }
    }

    /// The ending of a name of a file in this form.
    pub fn suffix(self) -> &'static str {
        match self {
            Encoding::Brotli => ".br",
            Encoding::Gzip => ".gz",
        }
    }
}

/// Whether an `Accept-Encoding` allows for this one: it is named, or a star is, and not
/// with a weight of 0.
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

/// `q=0`, or with zeros behind it.
fn is_zero_weight(parameter: &[u8]) -> bool {
    match parameter {
        [b'q' | b'Q', b'=', weight @ ..] => weight.iter().all(|&byte| byte == b'0' || byte == b'.'),
        _ => false,
    }
}
