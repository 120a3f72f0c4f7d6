//! The content of records: requests and answers. `README.md` has the formats in tables.

use crate::tree::Name;
use std::io::{self, ErrorKind};

/// The longest path that a request may name, in bytes. The kernel's limit is the same.
pub const LONGEST_PATH: usize = 4095;

/// The bytes of a piece before its content: a kind, and the number of bytes that follow the piece.
pub const PIECE_HEADER: usize = 9;

const GET: u8 = b'g';
const LIST: u8 = b'l';
const PIECE: u8 = b'p';
const NAMES: u8 = b'n';
const SORRY: u8 = b's';

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// For the content of a file.
    Get(&'a [u8]),
    /// For the names in a directory.
    List(&'a [u8]),
}

impl<'a> Request<'a> {
    /// Returns the record of the request.
    pub fn record(self) -> Vec<u8> {
        let (kind, path) = match self {
            Request::Get(path) => (GET, path),
            Request::List(path) => (LIST, path),
        };
        [&[kind], path].concat()
    }

    /// Reads a request. Returns `None` if it is none.
    pub fn of(record: &'a [u8]) -> Option<Request<'a>> {
        match record.split_first()? {
            (&GET, path) => Some(Request::Get(path)),
            (&LIST, path) => Some(Request::List(path)),
            _ => None,
        }
    }
}

/// The reason why a request is not fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorry {
    NotFound,
    /// A link, a device, a path that leads out of the directory, or a file that the server may not
    /// read.
    NotShown,
    IsDirectory,
    NotDirectory,
    /// The server lacks memory or descriptors, or the disk fails.
    Unavailable,
    /// The file has become shorter, or the directory is gone, after the first part was sent.
    Changed,
    NotUnderstood,
}

impl Sorry {
    const ALL: [Sorry; 7] = [
        Sorry::NotFound,
        Sorry::NotShown,
        Sorry::IsDirectory,
        Sorry::NotDirectory,
        Sorry::Unavailable,
        Sorry::Changed,
        Sorry::NotUnderstood,
    ];

    /// Returns the text for a user.
    pub fn text(self) -> &'static str {
        match self {
            Sorry::NotFound => "there is no such file or directory",
            Sorry::NotShown => "the server does not show it",
            Sorry::IsDirectory => "it is a directory; use \"sinew files ls\"",
            Sorry::NotDirectory => "it is not a directory",
            Sorry::Unavailable => "the server cannot read it now",
            Sorry::Changed => "it changed while it was sent; try again",
            Sorry::NotUnderstood => "the server does not understand the request",
        }
    }

    /// Appends the record of this answer.
    pub fn write(self, into: &mut Vec<u8>) {
        into.extend([SORRY, self as u8]);
    }
}

/// The names that follow a record of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// None: this is the last record.
    No,
    /// Another record.
    Yes,
    /// None, but the server has left some names out.
    Cut,
}

impl More {
    const ALL: [More; 3] = [More::No, More::Yes, More::Cut];
}

/// A record of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A piece of a file, and the number of bytes that follow it.
    Piece {
        rest: u64,
        content: &'a [u8],
    },
    /// Names in a directory.
    Names {
        more: More,
        entries: Entries<'a>,
    },
    Sorry(Sorry),
}

/// Returns the header of a piece that is followed by `rest` bytes.
pub fn piece_header(rest: u64) -> [u8; PIECE_HEADER] {
    let mut header = [PIECE; PIECE_HEADER];
    header[1..].copy_from_slice(&rest.to_be_bytes());
    header
}

/// Begins a record of names. [`end_names`] has to follow.
pub fn begin_names(into: &mut Vec<u8>) {
    into.extend([NAMES, More::No as u8]);
}

/// Appends a name to a record of names.
pub fn write_name(name: &Name<'_>, into: &mut Vec<u8>) {
    into.push(name.is_directory.into());
    into.extend(name.size.to_be_bytes());
    into.extend(name.modified.to_be_bytes());
    // The kernel's names have at most 255 bytes.
    into.extend((name.bytes.len() as u16).to_be_bytes());
    into.extend_from_slice(name.bytes);
}

/// Ends a record of names.
pub fn end_names(into: &mut [u8], more: More) {
    into[1] = more as u8;
}

impl<'a> Answer<'a> {
    /// Reads a record of an answer.
    ///
    /// # Errors
    /// `InvalidData` if it is none.
    pub fn of(record: &'a [u8]) -> io::Result<Answer<'a>> {
        let read = || match record.split_first()? {
            (&PIECE, after) => {
                let (rest, content) = after.split_first_chunk()?;
                Some(Answer::Piece { rest: u64::from_be_bytes(*rest), content })
            }
            (&NAMES, [more, entries @ ..]) => {
                Some(Answer::Names { more: *More::ALL.get(usize::from(*more))?, entries: Entries(entries) })
            }
            (&SORRY, &[code]) => Sorry::ALL.get(usize::from(code)).copied().map(Answer::Sorry),
            _ => None,
        };
        read().ok_or_else(not_understood)
    }
}

fn not_understood() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the server's answer is not understood")
}

/// The names of a record. Iterating ends with an error if the record is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Option<Name<'a>> {
        let (&is_directory, after) = self.0.split_first()?;
        let (size, after) = after.split_first_chunk()?;
        let (modified, after) = after.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let (bytes, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        self.0 = after;
        Some(Name {
            bytes,
            is_directory: is_directory != 0,
            size: u64::from_be_bytes(*size),
            modified: i64::from_be_bytes(*modified),
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = io::Result<Name<'a>>;

    fn next(&mut self) -> Option<io::Result<Name<'a>>> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry.ok_or_else(not_understood))
    }
}

/// Returns a path as the tree takes it. The path has no `..`, no empty name and no NUL, and does not
/// begin at the root. The directory itself is the empty path or a dot.
///
/// # Errors
/// Returns the answer to such a path.
pub fn place(path: &[u8], hidden: bool) -> Result<&[u8], Sorry> {
    if path.is_empty() || path == b"." {
        return Ok(b"");
    }
    let is_wrong = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.contains(&0);
    let mut names = path.split(|&byte| byte == b'/');
    if path.len() > LONGEST_PATH || names.clone().any(is_wrong) {
        return Err(Sorry::NotShown);
    }
    if !hidden && names.any(|name| name.starts_with(b".")) {
        return Err(Sorry::NotFound);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_they_are_written() {
        for request in [Request::Get(b"a/b"), Request::List(b"")] {
            assert_eq!(Request::of(&request.record()), Some(request));
        }
        for sorry in Sorry::ALL {
            let mut record = Vec::new();
            sorry.write(&mut record);
            assert_eq!(Answer::of(&record).unwrap(), Answer::Sorry(sorry));
        }
        let record = [&piece_header(77)[..], b"content"].concat();
        assert_eq!(Answer::of(&record).unwrap(), Answer::Piece { rest: 77, content: b"content" });
        let mut record = Vec::new();
        begin_names(&mut record);
        write_name(&Name { bytes: b"one", is_directory: false, size: 5, modified: -1 }, &mut record);
        write_name(&Name { bytes: b"two", is_directory: true, size: 0, modified: 9 }, &mut record);
        end_names(&mut record, More::Cut);
        let Answer::Names { more: More::Cut, entries } = Answer::of(&record).unwrap() else { panic!("names") };
        let names: Vec<_> = entries.map(Result::unwrap).map(|name| (name.bytes, name.size, name.modified)).collect();
        assert_eq!(names, [(&b"one"[..], 5, -1), (b"two", 0, 9)]);
    }

    #[test]
    fn broken_answers_are_errors() {
        for record in [&b""[..], b"x", b"s", b"s\x07", b"s\x00\x00", b"n", b"n\x03", b"p1234567"] {
            assert!(Answer::of(record).is_err(), "{record:?}");
        }
        let Answer::Names { entries, .. } = Answer::of(b"n\x00\x01abc").unwrap() else { panic!("names") };
        let outcomes: Vec<_> = entries.collect();
        assert!(matches!(&outcomes[..], [Err(_)]));
    }

    #[test]
    fn places_are_beneath_the_directory() {
        assert_eq!((place(b"", false), place(b".", false)), (Ok(&b""[..]), Ok(&b""[..])));
        assert_eq!(place(b"a/b..c/...", true), Ok(&b"a/b..c/..."[..]));
        let long = [b'x'; LONGEST_PATH + 1];
        for path in [&b"/"[..], b"/a", b"..", b"a/..", b"a/../b", b"a//b", b"a/", b"./a", b"a\0", b"\0", &long] {
            assert_eq!(place(path, true), Err(Sorry::NotShown), "{path:?}");
        }
        assert_eq!(place(b"a/.git/config", false), Err(Sorry::NotFound));
    }
}
