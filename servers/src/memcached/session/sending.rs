//! Answers on their way to the client.

use super::{HEAD, PIECE_COUNTS, SHORT_VALUE, Session};
use crate::lobby::is_silence;
use crate::memcached::Server;
use crate::memcached::session::Lookup;
use crate::memcached::store::{Cursor, Number, Place};
use crate::memcached::stream::Stream;
use crate::memory;
use std::io;
use std::ops::Range;
use std::time::Instant;

/// The number of bytes of a long value that are copied while its shard is locked.
const PIECE: usize = 16 * 1024;

/// The number of bytes of a long value that are sent at a time if there is no memory, or if the
/// client does not read.
const SMALLEST_PIECE: usize = HEAD - TAIL;

/// The length of the longest text that follows a value.
const TAIL: usize = 8;

/// When this number of bytes waits to be sent, it is sent, even if there are more requests to
/// answer.
const MOST_UNSENT: usize = 64 * 1024;

impl<S: Stream> Session<'_, S> {
    /// Sends all answers.
    pub(in crate::memcached) fn send(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let count = match self.stream.write(&self.out) {
                Err(_) if self.server.is_stopping() => {
                    let deadline = self.server.stop_deadline();
                    sinew::cancel::shield(|| self.stream.write_until(&self.out, deadline))
                }
                count => count,
            }?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.sent(count);
        }
        Ok(())
    }

    /// Removes the first `count` bytes of the answers: they have been sent.
    #[inline]
    fn sent(&mut self, count: usize) {
        self.server.traffic.sent(count);
        if count == self.out.len() {
            self.out.clear();
        } else {
            self.keep(count..self.out.len());
        }
    }

    /// Keeps a part of the answers, and only the memory for that part: the client may be slow. The
    /// part is copied. A buffer that is shortened in place would fragment the heap.
    #[cold]
    pub(super) fn keep(&mut self, part: Range<usize>) {
        let mut kept = Vec::new();
        if kept.try_reserve_exact(part.len().max(HEAD)).is_ok() {
            kept.extend_from_slice(&self.out[part]);
            self.out = kept;
        } else {
            self.out.truncate(part.end);
            self.out.drain(..part.start);
        }
    }

    /// Makes room for an answer without its value. Sends if there is much to send, or no memory
    /// for more. Lets other sessions run if this session's turn is over.
    ///
    /// # Errors
    /// Errors of the connection; `OutOfMemory` if there is no room after sending.
    #[inline]
    pub(in crate::memcached) fn send_some(&mut self) -> io::Result<()> {
        let room = self.out.capacity() - self.out.len();
        if self.turn == 0 || self.out.len() >= MOST_UNSENT || room < HEAD { self.send_some_slow() } else { Ok(()) }
    }

    /// Makes room for a value and the text that follows it.
    #[inline]
    pub(in crate::memcached) fn reserve(&mut self, length: u32) -> io::Result<()> {
        memory::reserve(&mut self.out, length as usize + TAIL)
    }

    /// Appends the value of a found item to the answers, and unlocks its shard. A long value is
    /// pinned and sent piece by piece.
    #[inline(always)]
    pub(in crate::memcached) fn push_value(
        &mut self,
        mut found: Lookup<'_>,
        item: Number,
        length: u32,
    ) -> io::Result<()> {
        let mut cursor = found.shard.blocks.value(item);
        let is_short = length <= SHORT_VALUE && self.reserve(length).is_ok();
        if !is_short && found.shard.pin(item) {
            let pinned = Pinned { server: self.server, place: found.place, item };
            drop(found);
            return self.send_pinned(&pinned, cursor, length);
        }
        if !is_short {
            // 65,535 clients are reading the item: this client gets a copy of the whole value.
            self.reserve(length)?;
        }
        found.shard.blocks.copy_out(&mut cursor, length as usize, &mut self.out);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn send_some_slow(&mut self) -> io::Result<()> {
        if self.turn == 0 {
            self.give_way();
        }
        if self.out.len() >= MOST_UNSENT || memory::reserve(&mut self.out, HEAD).is_err() {
            self.send()?;
            self.moment = self.server.moment();
        }
        // There is memory for this much for each connection.
        Ok(self.out.try_reserve(HEAD)?)
    }

    /// Appends a long value to the answers, and sends them piece by piece. If the client does not
    /// read, no large buffer is kept: what could not be sent is copied again later.
    #[inline(never)]
    fn send_pinned(&mut self, pinned: &Pinned<'_>, mut cursor: Cursor, length: u32) -> io::Result<()> {
        let store = &self.server.store;
        let mut left = length as usize;
        while left > 0 {
            self.send_some()?;
            let (before, start) = (self.out.len(), cursor);
            let mut batch = left.min(MOST_UNSENT - before);
            if batch == left && left > SMALLEST_PIECE && length as usize > MOST_UNSENT {
                // Only the end of the value waits to be sent with the next answer, and then the item
                // is not pinned.
                batch -= SMALLEST_PIECE;
            }
            if self.reserve(batch as u32).is_err() {
                batch = batch.min(self.out.capacity() - before - TAIL);
            }
            left -= batch;
            while batch > 0 {
                let piece = batch.min(PIECE);
                store.lock(pinned.place.shard).blocks.copy_out(&mut cursor, piece, &mut self.out);
                self.count_work(PIECE_COUNTS);
                batch -= piece;
            }
            if left == 0 && self.out.len() < MOST_UNSENT {
                // The next answer can be sent with it.
                return Ok(());
            }
            let (all, sent) = (self.out.len(), self.try_send()?);
            if sent == all {
                self.sent(all);
                continue;
            }
            // Wait with a small buffer: the rest of earlier answers, or a small piece of the value.
            let end = before.max(all.min(sent + SMALLEST_PIECE));
            left += all - end;
            cursor = store.lock(pinned.place.shard).blocks.skip(start, end - before);
            self.server.traffic.sent(sent);
            self.keep(sent..end);
            self.send()?;
            self.renew();
        }
        Ok(self.out.try_reserve(TAIL)?)
    }

    /// Sends what can be sent without waiting. Returns the number of bytes sent, and does not
    /// remove them from the answers.
    fn try_send(&self) -> io::Result<usize> {
        match self.stream.write_until(&self.out, Instant::now()) {
            Err(error) if is_silence(&error) || self.server.is_stopping() => Ok(0),
            count => count,
        }
    }
}

/// An item that is pinned: its memory stays at least as long as this value.
struct Pinned<'a> {
    /// The server that has the item.
    server: &'a Server,
    /// The item's shard.
    place: Place,
    /// The item.
    item: Number,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.server.store.lock(self.place.shard).unpin(self.item);
    }
}
