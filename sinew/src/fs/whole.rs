//! Reads of more than one call: until a buffer is full, or until the file ends.
//!
//! If nothing is read in place, all calls are made in the pool at once.

use super::cold;
use super::facts::Cached;
use super::file::File;
use super::reading::{PIECE, Stop, after, further, is_fibre, spend};
use crate::io::blocking;
use std::io::{self, ErrorKind, IoSliceMut, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// The room that is added to a buffer that is full, unless it grows by more. Unmeasured.
const LEAST_ROOM: usize = 4096;

impl File {
    /// Fills the buffer.
    pub(super) fn read_exactly(&self, mut buffer: &mut [u8], mut offset: Option<u64>) -> io::Result<()> {
        if !self.reads_in_place()? {
            let _turn = if offset.is_none() { self.turn()? } else { None };
            return blocking(|| match (self.shared().get()?, offset) {
                (file, Some(offset)) => file.read_exact_at(buffer, offset),
                (mut file, None) => file.read_exact(buffer),
            });
        }
        while !buffer.is_empty() {
            match self.read_from(buffer, offset) {
                // std knows the error.
                Ok(0) => return io::empty().read_exact(buffer),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset = further(offset, read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the buffers, one after the other.
    pub(super) fn read_into(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let _turn = self.turn()?;
        if !self.reads_in_place()? {
            return blocking(|| self.shared().get()?.read_vectored(buffers));
        }
        let mut count = 0;
        for buffer in buffers.iter_mut().filter(|buffer| !buffer.is_empty()) {
            match self.read_in_turn(buffer, None) {
                Ok(read) if read == buffer.len() => count += read,
                result => return after(count, result),
            }
        }
        Ok(count)
    }

    /// Returns whether some reads of the caller are made in place.
    pub(super) fn reads_in_place(&self) -> io::Result<bool> {
        Ok(is_fibre() && self.facts()?.cached() != Cached::Never)
    }

    async fn reads_in_place_async(&self) -> io::Result<bool> {
        Ok(self.facts_async().await?.cached() != Cached::Never)
    }

    /// Reads until the end of the file. The bytes that were read before an error stay in `buffer`.
    pub(super) fn read_rest(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let start = buffer.len();
        if self.reads_in_place()? {
            buffer.try_reserve(self.bytes_left()?)?;
        }
        while self.reads_in_place()? {
            if buffer.len() == buffer.capacity() {
                buffer.try_reserve(LEAST_ROOM)?;
            }
            let read = {
                let _turn = self.turn()?;
                self.append_piece(self.shared().get()?, buffer)
            };
            match read {
                Ok(0) => return Ok(buffer.len() - start),
                Ok(read) => spend(read),
                Err(Stop::Cold) => match self.read_cold(buffer) {
                    Some(Ok(0)) => return Ok(buffer.len() - start),
                    Some(Ok(_)) => {}
                    Some(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                    Some(Err(error)) => return Err(error),
                    None => break,
                },
                Err(_) => break,
            }
        }
        let _turn = self.turn()?;
        blocking(|| self.shared().get()?.read_to_end(buffer))?;
        Ok(buffer.len() - start)
    }

    /// Appends bytes by the ring, if there is one. Returns their number.
    fn read_cold(&self, buffer: &mut Vec<u8>) -> Option<io::Result<usize>> {
        let (turn, file, filled) = match (self.turn(), self.shared().get(), make_room(buffer)) {
            (Ok(turn), Ok(file), Ok(filled)) => (turn, file, filled),
            (Err(error), ..) | (_, Err(error), _) => return Some(Err(error.into())),
            (.., Err(error)) => return Some(Err(error)),
        };
        let read = cold::read(file.as_fd(), &mut buffer[filled..], None);
        drop(turn);
        buffer.truncate(filled + read.as_ref().map_or(0, |read| *read.as_ref().unwrap_or(&0)));
        read
    }

    /// As [`read_rest`](File::read_rest), for tasks. Returns the bytes.
    pub(super) async fn read_rest_async(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while self.reads_in_place_async().await? {
            let filled = make_room(&mut bytes)?;
            let read = self.read_from_async(&mut bytes[filled..], None).await;
            bytes.truncate(filled + read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(bytes),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let turn = self.turn_async().await?;
        self.call(move |mut file| {
            let _turn = turn;
            file.read_to_end(&mut bytes).map(|_| bytes)
        })
        .await
    }

    /// Returns the number of bytes from the position to the end of the file, if that is known without
    /// waiting.
    fn bytes_left(&self) -> io::Result<usize> {
        if !self.facts()?.is_local() {
            return Ok(0);
        }
        let _turn = self.turn()?;
        let mut file = self.shared().get()?;
        let left = file.metadata()?.len().saturating_sub(file.stream_position()?);
        // One more, so that the end is found without another piece of memory.
        Ok(usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1))
    }
}

/// Appends zeros to be read over: what there is room for, but no more than a piece. Returns where they
/// begin.
fn make_room(buffer: &mut Vec<u8>) -> io::Result<usize> {
    let filled = buffer.len();
    if filled == buffer.capacity() {
        buffer.try_reserve(LEAST_ROOM)?;
    }
    buffer.resize(buffer.capacity().min(filled + PIECE), 0);
    Ok(filled)
}

/// Reads text until the end of a file by `read`, and appends it. Bytes that are no text are an error,
/// and not appended.
pub(super) fn append_text(
    text: &mut String,
    read: impl FnOnce(&mut Vec<u8>) -> io::Result<usize>,
) -> io::Result<usize> {
    let start = text.len();
    let mut bytes = std::mem::take(text).into_bytes();
    let result = read(&mut bytes);
    match String::from_utf8(bytes) {
        Ok(all) => {
            *text = all;
            result
        }
        Err(error) => {
            let mut bytes = error.into_bytes();
            bytes.truncate(start);
            *text = String::from_utf8(bytes).expect("it was text before");
            result.and(Err(no_text()))
        }
    }
}

/// Returns the text that these bytes are.
pub(super) fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| no_text())
}

/// Returns std's error.
fn no_text() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8")
}
