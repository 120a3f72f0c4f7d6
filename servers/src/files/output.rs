//! The records that a session sends: filled, encrypted by the colour, written in order.
//!
//! ```text
//!   1  take a piece; if all pieces are on their way, wait for the oldest, write it, take it
//!   2  fill it, from a file or with names
//!   3  post its encryption; go on with 1
//!   4  at the end of the answer, write the pieces that are on their way
//! ```
//!
//! So the file is read and the socket written while the colour encrypts. A slow client holds the
//! memory of at most [`DEPTH`] pieces.

use super::noise::Cipher;
use super::record::{HEADER, TAG, fit};
use super::seal::{self, Pending, Piece};
use crate::lobby::is_silence;
use sinew::event::Colour;
use sinew::net::TcpStream;
use sinew::time;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// The number of pieces of a connection that are on their way at a time. One client alone on two
/// processors gets 1.5 GB/s with 4 pieces and 1.4 GB/s with 2. With 16 clients there is no difference.
const DEPTH: usize = 4;

/// The output of one answer.
pub struct Output<'a> {
    stream: &'a TcpStream,
    colour: &'a Colour,
    cipher: &'a Arc<Cipher>,
    /// The number of the next record.
    number: &'a mut u64,
    /// The time that a client has to take a record.
    patience: Duration,
    /// Pieces that are on their way, the oldest first.
    under_way: VecDeque<Pending>,
    /// Pieces that have been written.
    written: Vec<Piece>,
}

impl<'a> Output<'a> {
    /// Begins an answer.
    pub fn new(
        stream: &'a TcpStream,
        colour: &'a Colour,
        cipher: &'a Arc<Cipher>,
        number: &'a mut u64,
        patience: Duration,
    ) -> Output<'a> {
        Output { stream, colour, cipher, number, patience, under_way: VecDeque::new(), written: Vec::new() }
    }

    /// Returns a piece of `length` bytes, whatever they are.
    ///
    /// # Errors
    /// The errors of the connection; `OutOfMemory`.
    pub fn piece(&mut self, length: usize) -> io::Result<Piece> {
        if self.under_way.len() == DEPTH {
            self.write_oldest()?;
        }
        let mut piece = self.written.pop().unwrap_or_default();
        fit(&mut piece.plain, length)?;
        // So the colour need not ask for memory.
        fit(&mut piece.record, HEADER + length + TAG)?;
        Ok(piece)
    }

    /// Sends a piece behind those that are on their way.
    ///
    /// # Errors
    /// The runtime ends.
    pub fn send(&mut self, piece: Piece) -> io::Result<()> {
        self.under_way.push_back(seal::post(self.colour, piece, *self.number, self.cipher)?);
        *self.number += 1;
        Ok(())
    }

    /// Writes all pieces that are on their way.
    ///
    /// # Errors
    /// The errors of the connection.
    pub fn finish(mut self) -> io::Result<()> {
        while !self.under_way.is_empty() {
            self.write_oldest()?;
        }
        Ok(())
    }

    fn write_oldest(&mut self) -> io::Result<()> {
        let Some(oldest) = self.under_way.pop_front() else { return Ok(()) };
        let piece = oldest.recv().map_err(|_| io::Error::other("the encryption has panicked"))??;
        let mut stream = self.stream;
        time::timeout(self.patience, || stream.write_all(&piece.record)).map_err(|error| match is_silence(&error) {
            true => io::Error::new(error.kind(), "the client did not take an answer in time"),
            false => error,
        })?;
        self.written.push(piece);
        Ok(())
    }
}
