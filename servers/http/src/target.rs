//! The target of a request, as a path below the served directory.

use crate::status::Status;
use std::borrow::Cow;

/// A path below the served directory. It never leads out: no name in it is empty, `.` or `..`, and
/// no name contains a slash or NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'b> {
    /// The names, with slashes between them. Empty for the served directory itself.
    pub path: Cow<'b, [u8]>,
    /// Whether the target ends with a slash, and so means a directory.
    pub is_directory: bool,
    /// The text behind the question mark, as the client wrote it.
    pub query: Option<&'b [u8]>,
}

impl Place<'_> {
    /// Returns whether a name begins with a dot. `.well-known` at the top is public (RFC 8615), and
    /// so are the files below it.
    pub fn is_hidden(&self) -> bool {
        let mut names = self.path.split(|&byte| byte == b'/').peekable();
        if names.peek() == Some(&&b".well-known"[..]) {
            names.next();
        }
        names.any(|name| name.first() == Some(&b'.'))
    }
}

/// Parses a target: a path, or a whole `http` address, whose path is taken.
///
/// # Errors
/// 400 if the target is neither, or leads out.
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

/// Returns whether each byte of the path stands for itself.
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

/// Returns the part behind the host.
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

/// Decodes `%` with two hexadecimal digits into a byte. A slash or NUL is refused: no name contains
/// one.
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

/// Appends a name so that [`place`] reads it back. No byte of it has a meaning in HTML.
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
