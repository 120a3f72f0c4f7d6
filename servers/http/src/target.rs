//! What a request's target names below the directory that is served.

use crate::status::Status;
use std::borrow::Cow;

/// A place below the top, which it does not leave: no name in it is empty, `.` or `..`, or
/// has a slash or a NUL in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'b> {
    /// The names, with slashes between them; none at the top.
    pub path: Cow<'b, [u8]>,
    /// Whether the target ends with a slash, so that it means a directory.
    pub is_directory: bool,
    /// What stands behind the question mark, as the client wrote it.
    pub query: Option<&'b [u8]>,
}

impl Place<'_> {
    /// Whether a name in it begins with a dot. `.well-known` at the top is there to be
    /// found (RFC 8615), what is below it as well.
    pub fn is_hidden(&self) -> bool {
        let mut names = self.path.split(|&byte| byte == b'/').peekable();
        if names.peek() == Some(&&b".well-known"[..]) {
            names.next();
        }
        names.any(|name| name.first() == Some(&b'.'))
    }
}

/// Reads a target: a path, or a whole `http` address, of which the path counts.
///
/// # Errors
/// 400 if it is neither, or leads out.
#[inline]
pub fn place(target: &str) -> Result<Place<'_>, Status> {
    let target = target.as_bytes();
    match target {
        [b'/', path @ ..] if is_plain(path) => {
            let is_directory = path.last().is_none_or(|&last| last == b'/');
            let path = path.strip_suffix(b"/").unwrap_or(path);
            Ok(Place { path: Cow::Borrowed(path), is_directory, query: None })
        }
        [b'/', ..] => place_slow(target),
        _ => place_slow(path_of_address(target)?),
    }
}

/// Whether each byte of it stands for itself.
#[inline]
fn is_plain(path: &[u8]) -> bool {
    let mut before = b'/';
    path.iter().all(|&byte| {
        let is_special = matches!(byte, b'%' | b'?' | b'#') || before == b'/' && matches!(byte, b'/' | b'.');
        before = byte;
        !is_special
    })
}

#[cold]
fn place_slow(target: &[u8]) -> Result<Place<'_>, Status> {
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    if memchr::memchr(b'#', target).is_some() {
        return Err(Status::BAD_REQUEST);
    }
    let path = decode(path)?;
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop().ok_or(Status::BAD_REQUEST)?),
            name => names.push(name),
        }
    }
    let last = path.rsplit(|&byte| byte == b'/').next();
    let is_directory = names.is_empty() || matches!(last, None | Some(b"" | b"." | b".."));
    Ok(Place { path: Cow::Owned(names.join(&b'/')), is_directory, query })
}

/// What stands behind the host.
fn path_of_address(target: &[u8]) -> Result<&[u8], Status> {
    let after = |scheme: &[u8]| {
        target
            .split_at_checked(scheme.len())
            .filter(|(begin, _)| begin.eq_ignore_ascii_case(scheme))
            .map(|(_, end)| end)
    };
    let rest = after(b"http://").or_else(|| after(b"https://")).ok_or(Status::BAD_REQUEST)?;
    let host = rest.iter().take_while(|&&byte| byte != b'/' && byte != b'?').count();
    match host {
        0 => Err(Status::BAD_REQUEST),
        _ => Ok(&rest[host..]),
    }
}

/// Each `%` with two hexadecimal digits stands for a byte: not for a slash or NUL, which no
/// name has.
fn decode(path: &[u8]) -> Result<Cow<'_, [u8]>, Status> {
    if memchr::memchr(b'%', path).is_none() {
        return Ok(Cow::Borrowed(path));
    }
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(16));
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => match (digit(bytes.next()), digit(bytes.next())) {
                (Some(high), Some(low)) => match (high << 4 | low) as u8 {
                    0 | b'/' => return Err(Status::BAD_REQUEST),
                    byte => byte,
                },
                _ => return Err(Status::BAD_REQUEST),
            },
            byte => byte,
        });
    }
    Ok(Cow::Owned(decoded))
}

/// Writes a name so that [`place`] reads it, and nothing in it means anything in HTML.
pub fn encode(name: &[u8], into: &mut String) {
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => into.push(byte as char),
            _ => {
                let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0').to_ascii_uppercase();
                into.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}
