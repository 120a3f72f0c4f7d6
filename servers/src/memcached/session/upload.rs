//! Large values on their way from the client.

use super::Session;
use crate::memcached::Server;
use crate::memcached::input::{Input, LARGE};
use crate::memcached::store::{Draft, Place};
use crate::memcached::stream::Stream;
use crate::memcached::traffic::State;
use crate::memory;
use std::io;

/// memcached allocates memory for a longer value while it arrives. If there is none, it gives
/// another answer, and does not remove the item that was to be replaced.
const LARGEST_PIECE: u32 = 512 * 1024;

/// A large value that is being received.
pub struct Upload {
    /// The request that brings the value.
    pub head: Vec<u8>,
    /// The place of its key.
    pub place: Place,
    /// The part of the value that has arrived.
    pub draft: Draft,
    /// The length of the value.
    pub length: u32,
    /// The number of bytes that are still to come.
    pub left: u32,
}

impl<S: Stream> Session<'_, S> {
    /// Receives a large value. Returns `false` if the client has gone.
    #[inline(never)]
    pub(super) fn receive(&mut self, upload: Upload, input: &mut Input<'_>) -> io::Result<bool> {
        let Upload { head, place, draft, length, mut left } = upload;
        let mut held = Held { server: self.server, shard: place.shard, draft: Some(draft) };
        self.entry.set_state(State::Receives);
        self.send()?;
        while left > 0 {
            if input.bytes().is_empty() && self.fill(input)? == 0 {
                return Ok(false);
            }
            self.moment = self.server.moment();
            let piece = input.bytes().len().min(left as usize);
            let mut shard = self.server.store.lock(place.shard);
            let fits =
                held.draft.as_mut().is_some_and(|draft| shard.receive(draft, &input.bytes()[..piece], self.moment));
            drop(shard);
            if !fits {
                drop(held);
                return self.fail_upload(&head, length, left, input);
            }
            input.consume(piece);
            left -= piece as u32;
        }
        let tail = self.tail();
        while input.bytes().len() < tail {
            if self.fill(input)? == 0 {
                return Ok(false);
            }
            self.moment = self.server.moment();
        }
        let is_whole = self.is_binary || input.bytes().starts_with(b"\r\n");
        input.consume(tail);
        self.send_some()?;
        if let Some(draft) = held.draft.take_if(|_| is_whole) {
            self.finish_upload(&head, Some(draft), length);
        } else {
            drop(held);
            self.finish_upload(&head, None, length);
        }
        Ok(true)
    }

    /// Returns the number of bytes that follow a value.
    fn tail(&self) -> usize {
        if self.is_binary { 0 } else { 2 }
    }

    fn fail_upload(&mut self, head: &[u8], length: u32, left: u32, input: &mut Input<'_>) -> io::Result<bool> {
        if !self.swallow(u64::from(left) + self.tail() as u64, input)? {
            return Ok(false);
        }
        self.send_some()?;
        let is_noticed_late = length > LARGEST_PIECE;
        if self.is_binary {
            self.binary_upload_failed(head, is_noticed_late);
        } else {
            self.text_upload_failed(head, is_noticed_late);
        }
        Ok(true)
    }

    fn finish_upload(&mut self, head: &[u8], draft: Option<Draft>, length: u32) {
        if self.is_binary {
            self.binary_uploaded(head, draft, length);
        } else {
            self.text_uploaded(head, draft, length);
        }
    }

    /// Skips `count` bytes. Returns `false` if the client has gone.
    #[inline(never)]
    pub(super) fn swallow(&mut self, mut count: u64, input: &mut Input<'_>) -> io::Result<bool> {
        loop {
            let here = count.min(input.bytes().len() as u64);
            input.consume(here as usize);
            count -= here;
            if count == 0 {
                return Ok(true);
            }
            self.send()?;
            if self.fill(input)? == 0 {
                return Ok(false);
            }
            self.moment = self.server.moment();
        }
    }

    /// Begins to receive a large value of which `begun` has arrived. Returns `None` if there is no
    /// memory.
    pub(in crate::memcached) fn begin_upload(
        &mut self,
        head: &[u8],
        key: &[u8],
        begun: &[u8],
        length: u32,
    ) -> Option<Upload> {
        debug_assert!(head.len() <= LARGE);
        let mut kept = Vec::new();
        memory::reserve(&mut kept, head.len()).ok()?;
        kept.extend_from_slice(head);
        let place = self.server.store.place(key);
        let begun = &begun[..begun.len().min(length as usize)];
        let mut shard = self.server.store.lock(place.shard);
        let mut draft = shard.draft(key, b"", length as usize, self.moment)?;
        if !shard.receive(&mut draft, begun, self.moment) {
            shard.discard(draft);
            return None;
        }
        drop(shard);
        Some(Upload { head: kept, place, draft, length, left: length - begun.len() as u32 })
    }
}

/// A draft whose memory is given back if the session ends before the value is complete.
struct Held<'a> {
    server: &'a Server,
    shard: usize,
    draft: Option<Draft>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(draft) = self.draft.take() {
            self.server.store.lock(self.shard).discard(draft);
        }
    }
}
