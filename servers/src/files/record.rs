//! Records: two bytes with a length, the most significant one first, and as many encrypted bytes.

use super::noise::Cipher;
use crate::memory;
use sinew::net::TcpStream;
use std::io::{self, ErrorKind, Read};

/// The bytes before a record.
pub const HEADER: usize = 2;

/// The bytes by which encryption makes a record longer.
pub const TAG: usize = 16;

/// The most encrypted bytes of a record.
pub const MOST: usize = 65_535;

/// Makes a buffer this long. The bytes that it has stay, whatever they are, so that nothing is
/// cleared.
///
/// # Errors
/// `OutOfMemory`.
pub fn fit(buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    memory::reserve(buffer, length.saturating_sub(buffer.len()))?;
    buffer.resize(length, 0);
    Ok(())
}

/// Encrypts a record with this number into `record`, which it replaces.
///
/// # Errors
/// The record is too long; `OutOfMemory`.
pub fn seal(cipher: &Cipher, number: u64, plain: &[u8], record: &mut Vec<u8>) -> io::Result<()> {
    let length = plain.len() + TAG;
    let header = u16::try_from(length).map_err(|_| ErrorKind::InvalidInput)?;
    fit(record, HEADER + length)?;
    record[..HEADER].copy_from_slice(&header.to_be_bytes());
    cipher.seal(number, plain, &mut record[HEADER..])?;
    Ok(())
}

/// A reader of records.
#[derive(Default)]
pub struct Input {
    /// The number of the next record.
    pub number: u64,
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

impl Input {
    /// Receives a record of at most `most` encrypted bytes, and returns what it says. Returns `None`
    /// if the other end has closed the connection before the record.
    ///
    /// # Errors
    /// The errors of the connection; `UnexpectedEof` if the record is cut short; `InvalidData` if its
    /// length is wrong, or if it is not the next record.
    pub fn receive(&mut self, stream: &TcpStream, cipher: &Cipher, most: usize) -> io::Result<Option<&[u8]>> {
        let Some(length) = length(stream)? else { return Ok(None) };
        if !(TAG + 1..=most).contains(&length) {
            return Err(wrong_length(length));
        }
        fit(&mut self.sealed, length)?;
        fit(&mut self.plain, length)?;
        (&mut &*stream).read_exact(&mut self.sealed).map_err(cut_short)?;
        let length = cipher.open(self.number, &self.sealed, &mut self.plain)?;
        self.number += 1;
        Ok(Some(&self.plain[..length]))
    }

    /// Gives the buffers' memory back.
    pub fn rest(&mut self) {
        (self.sealed, self.plain) = (Vec::new(), Vec::new());
    }
}

fn wrong_length(length: usize) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("a record has the wrong length, {length} bytes"))
}

fn cut_short(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "a record was cut short"),
        _ => error,
    }
}

/// Receives the length of a record. Returns `None` at the end of the connection.
///
/// # Errors
/// The errors of the connection; `UnexpectedEof` after the first byte.
fn length(mut stream: &TcpStream) -> io::Result<Option<usize>> {
    let mut header = [0; HEADER];
    match stream.read(&mut header)? {
        0 => return Ok(None),
        HEADER => {}
        filled => stream.read_exact(&mut header[filled..]).map_err(cut_short)?,
    }
    Ok(Some(u16::from_be_bytes(header).into()))
}
