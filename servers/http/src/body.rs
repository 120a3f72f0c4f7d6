//! Finds the end of a body. The content is discarded.

use crate::head::Body;
use crate::status::Status;

/// The largest number of bytes that are not data: the lines of chunk sizes, with their extensions,
/// and the lines after the last chunk.
const MOST_BESIDE: u64 = 16 * 1024;

/// A body that is being received.
#[derive(Debug)]
pub struct Discard {
    state: State,
    /// The number of data bytes that may still come.
    allowance: u64,
    /// The number of other bytes that may still come.
    beside: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a body with a length; the number of bytes left.
    Length(u64),
    /// In the size of a chunk, behind this number of digits.
    Size {
        size: u64,
        digits: u32,
    },
    /// Behind the size, before a semicolon or CR.
    Blank(u64),
    /// Behind the semicolon, before CR.
    Extension(u64),
    /// Behind the CR of the size's line.
    SizeEnd(u64),
    /// In the data of a chunk; the number of bytes left.
    Data(u64),
    /// Behind the data of a chunk, before CR.
    DataCr,
    DataLf,
    /// At the beginning of a line after the last chunk.
    Trailer,
    /// In such a line.
    TrailerLine,
    /// Behind the CR of such a line.
    TrailerLf,
    /// Behind the CR of the empty line.
    EndLf,
    Done,
}

impl Discard {
    /// Begins a body of at most `limit` bytes.
    ///
    /// # Errors
    /// 413 if the body is known to be longer.
    pub fn new(body: Body, limit: u64) -> Result<Discard, Status> {
        let state = match body {
            Body::Length(0) => State::Done,
            Body::Length(length) if length > limit => return Err(Status::CONTENT_TOO_LARGE),
            Body::Length(length) => State::Length(length),
            Body::Chunked => State::Size { size: 0, digits: 0 },
        };
        Ok(Discard { state, allowance: limit, beside: MOST_BESIDE })
    }

    /// Returns whether all of the body has come.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the bytes that belong to the body, and returns their number. That is all bytes, unless
    /// the body ends in them.
    ///
    /// # Errors
    /// 400 if the body is malformed, 413 if it is too long. Nothing more can be read from the
    /// connection.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Status> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            at += match self.state {
                State::Length(left) => {
                    let count = left.min((bytes.len() - at) as u64);
                    self.state = if count == left { State::Done } else { State::Length(left - count) };
                    count as usize
                }
                State::Data(left) => {
                    let count = left.min((bytes.len() - at) as u64);
                    self.state = if count == left { State::DataCr } else { State::Data(left - count) };
                    count as usize
                }
                _ => {
                    self.beside = self.beside.checked_sub(1).ok_or(Status::CONTENT_TOO_LARGE)?;
                    self.step(bytes[at])?;
                    1
                }
            };
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<(), Status> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < 15 => {
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                State::Size { size: size << 4 | digit, digits: digits + 1 }
            }
            (State::Size { size, digits: 1.. }, b'\r') => State::SizeEnd(size),
            (State::Size { size, digits: 1.. } | State::Blank(size), b' ' | b'\t') => State::Blank(size),
            (State::Size { size, digits: 1.. } | State::Blank(size), b';') => State::Extension(size),
            (State::Blank(size) | State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::Extension(size), b'\t' | b' '..=b'~' | 0x80..) => State::Extension(size),
            (State::SizeEnd(0), b'\n') => State::Trailer,
            (State::SizeEnd(size), b'\n') => {
                self.allowance = self.allowance.checked_sub(size).ok_or(Status::CONTENT_TOO_LARGE)?;
                State::Data(size)
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { size: 0, digits: 0 },
            (State::Trailer, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::Done,
            (State::TrailerLine, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::Trailer,
            // A line that begins with a space would continue the one before.
            (State::Trailer, b'!'..=b'~') => State::TrailerLine,
            (State::TrailerLine, b'\t' | b' '..=b'~' | 0x80..) => State::TrailerLine,
            _ => return Err(Status::BAD_REQUEST),
        };
        Ok(())
    }
}
