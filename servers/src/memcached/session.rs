//! One connection, from its first byte to its last: plain code that blocks.

use super::Server;
use super::input::{Input, LARGE};
use super::store::{Cursor, Draft, Moment, Number, Place};
use super::stream::Stream;
use sinew_memcached_protocol::binary;
use std::io;

/// Values up to this length are copied out at once, and are received whole.
pub const SHORT_VALUE: u32 = 8 * 1024;

/// As much of a longer one at a time, while its shard is locked.
const PIECE: usize = 16 * 1024;

/// When so much is to be sent it is, even if there are more requests to answer.
const MOST_UNSENT: usize = 64 * 1024;

/// The state of one connection.
pub struct Session<'a, S> {
    pub(super) server: &'a Server,
    stream: &'a S,
    /// Answers that have not been sent.
    pub(super) out: Vec<u8>,
    pub(super) moment: Moment,
    /// As text is spoken, or the binary protocol.
    is_binary: bool,
}

/// What a session has to do when it has gone through what it had received.
pub enum Next {
    /// Wait for more.
    More,
    /// Take a large value piece by piece.
    Receive(Upload),
    /// Skip so many bytes, then say this.
    Swallow(u64, Vec<u8>),
    /// End.
    Close,
}

/// How far it got with what it had received.
pub struct Step {
    /// Bytes that have been dealt with.
    pub taken: usize,
    /// What now.
    pub next: Next,
}

/// A large value that is being received.
pub struct Upload {
    /// The request it came with.
    pub head: Vec<u8>,
    /// Where it belongs.
    pub place: Place,
    /// What has come of it.
    pub draft: Draft,
    /// The length of the value.
    pub length: u32,
    /// As much of it is still to come.
    pub left: u32,
}

impl<'a, S: Stream> Session<'a, S> {
    /// Serves until the client has had enough, or the server stops.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn serve(server: &'a Server, stream: &'a S) -> io::Result<()> {
        let moment = server.moment();
        let mut session = Session { server, stream, out: Vec::new(), moment, is_binary: false };
        let mut input = Input::new();
        let mut is_first = true;
        while session.fill(&mut input)? > 0 {
            session.moment = server.moment();
            if is_first {
                session.is_binary = input.bytes()[0] == binary::REQUEST;
                is_first = false;
            }
            if !session.answer(&mut input)? {
                return session.send();
            }
            session.send()?;
            if !input.is_busy() {
                session.out = Vec::new();
            }
        }
        Ok(())
    }

    /// Answers all requests that have come. `false` if there shall be no more.
    #[inline]
    fn answer(&mut self, input: &mut Input) -> io::Result<bool> {
        self.out.reserve(256);
        loop {
            let step = if self.is_binary { self.binary(input.bytes())? } else { self.text(input.bytes())? };
            input.consume(step.taken);
            match step.next {
                Next::More => return Ok(true),
                Next::Close => return Ok(false),
                Next::Receive(upload) => {
                    if !self.receive(upload, input)? {
                        return Ok(false);
                    }
                }
                Next::Swallow(count, answer) => {
                    if !self.swallow(count, input)? {
                        return Ok(false);
                    }
                    self.out.extend_from_slice(&answer);
                }
            }
        }
    }

    /// Waits for more. A session that is asked to stop ends here, if the client is not in
    /// the middle of a request.
    #[inline]
    fn fill(&mut self, input: &mut Input) -> io::Result<usize> {
        let is_between = input.bytes().is_empty();
        self.fill_within(input, is_between)
    }

    #[inline]
    fn fill_within(&mut self, input: &mut Input, may_stop: bool) -> io::Result<usize> {
        if self.server.is_stopping() && may_stop {
            return Ok(0);
        }
        let count = match input.fill(self.stream) {
            Err(_) if self.server.is_stopping() && !may_stop => self.fill_late(input),
            Err(_) if self.server.is_stopping() => Ok(0),
            count => count,
        }?;
        self.server.traffic.received(count);
        Ok(count)
    }

    /// What is left of a request has to come soon.
    #[cold]
    fn fill_late(&mut self, input: &mut Input) -> io::Result<usize> {
        let deadline = self.server.stop_deadline();
        sinew::cancel::shield(|| sinew::time::deadline(deadline, || input.fill(self.stream)))
    }

    /// Sends all answers.
    pub(super) fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            let rest = &self.out[sent..];
            let count = match self.stream.write(rest) {
                Err(_) if self.server.is_stopping() => {
                    let deadline = self.server.stop_deadline();
                    sinew::cancel::shield(|| self.stream.write_until(rest, deadline))
                }
                count => count,
            }?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            sent += count;
        }
        self.server.traffic.sent(sent);
        self.out.clear();
        Ok(())
    }

    /// Sends if there is much to send.
    #[inline]
    pub(super) fn send_some(&mut self) -> io::Result<()> {
        if self.out.len() >= MOST_UNSENT { self.send_much() } else { Ok(()) }
    }

    /// The client may take its time, in which items expire or are flushed.
    #[cold]
    #[inline(never)]
    fn send_much(&mut self) -> io::Result<()> {
        self.send()?;
        self.moment = self.server.moment();
        Ok(())
    }

    /// Appends a long value to the answers, and sends them, piece by piece. Its item has been
    /// pinned by the caller.
    #[inline(never)]
    pub(super) fn send_pinned(&mut self, pinned: &Pinned<'_>, mut cursor: Cursor, length: u32) -> io::Result<()> {
        let mut left = length as usize;
        while left > 0 {
            let piece = left.min(PIECE);
            let shard = self.server.store.lock(pinned.place.shard);
            shard.blocks.copy_out(&mut cursor, piece, &mut self.out);
            drop(shard);
            left -= piece;
            self.send_some()?;
        }
        Ok(())
    }

    /// Receives a large value. `false` if the client has gone.
    #[inline(never)]
    fn receive(&mut self, upload: Upload, input: &mut Input) -> io::Result<bool> {
        let Upload { head, place, draft, length, mut left } = upload;
        let mut held = Held { server: self.server, shard: place.shard, draft: Some(draft) };
        self.send()?;
        while left > 0 {
            if input.bytes().is_empty() && self.fill_within(input, false)? == 0 {
                return Ok(false);
            }
            self.moment = self.server.moment();
            let piece = input.bytes().len().min(left as usize);
            let mut shard = self.server.store.lock(place.shard);
            let fits =
                held.draft.as_mut().is_some_and(|draft| shard.extend(draft, &input.bytes()[..piece], self.moment));
            drop(shard);
            if !fits {
                drop(held);
                return self.fail_upload(&head, u64::from(left), input);
            }
            input.consume(piece);
            left -= piece as u32;
        }
        let tail = self.tail();
        while input.bytes().len() < tail {
            if self.fill_within(input, false)? == 0 {
                return Ok(false);
            }
            self.moment = self.server.moment();
        }
        let is_whole = self.is_binary || input.bytes().starts_with(b"\r\n");
        input.consume(tail);
        if let Some(draft) = held.draft.take_if(|_| is_whole) {
            self.finish_upload(&head, Some(draft), length)?;
        } else {
            drop(held);
            self.finish_upload(&head, None, length)?;
        }
        Ok(true)
    }

    /// As many bytes follow a value.
    pub(super) fn tail(&self) -> usize {
        if self.is_binary { 0 } else { 2 }
    }

    fn fail_upload(&mut self, head: &[u8], left: u64, input: &mut Input) -> io::Result<bool> {
        if !self.swallow(left + self.tail() as u64, input)? {
            return Ok(false);
        }
        if self.is_binary {
            self.binary_upload_failed(head)
        } else {
            self.text_upload_failed(head)
        }
        Ok(true)
    }

    fn finish_upload(&mut self, head: &[u8], draft: Option<Draft>, length: u32) -> io::Result<()> {
        if self.is_binary {
            self.binary_uploaded(head, draft, length);
        } else {
            self.text_uploaded(head, draft, length);
        }
        self.send_some()
    }

    /// Skips bytes. `false` if the client has gone.
    #[inline(never)]
    fn swallow(&mut self, mut count: u64, input: &mut Input) -> io::Result<bool> {
        loop {
            let here = count.min(input.bytes().len() as u64);
            input.consume(here as usize);
            count -= here;
            if count == 0 {
                return Ok(true);
            }
            self.send()?;
            if self.fill_within(input, false)? == 0 {
                return Ok(false);
            }
            self.moment = self.server.moment();
        }
    }

    /// Begins to take a large value of which `begun` is here. `None` if there is no memory.
    pub(super) fn begin_upload(&mut self, head: &[u8], key: &[u8], begun: &[u8], length: u32) -> Option<Upload> {
        debug_assert!(head.len() <= LARGE);
        let place = self.server.store.place(key);
        let begun = &begun[..begun.len().min(length as usize)];
        let draft = self.server.store.lock(place.shard).draft(key, begun, self.moment)?;
        Some(Upload { head: head.to_vec(), place, draft, length, left: length - begun.len() as u32 })
    }
}

/// A draft that is given back if its session ends before it is complete.
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

/// An item whose memory stays as long as this does.
pub struct Pinned<'a> {
    /// The server it is in.
    pub server: &'a Server,
    /// Where it is.
    pub place: Place,
    /// Which.
    pub item: Number,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.server.store.lock(self.place.shard).unpin(self.item);
    }
}
