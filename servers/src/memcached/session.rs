//! One connection, from its first byte to its last: plain code that blocks.

use super::Server;
use super::input::{Input, LARGE};
use super::store::{Cursor, Draft, Moment, Number, Place};
use super::stream::Stream;
use super::traffic::{Entry, State};
use super::watch::Topics;
use crate::lobby::is_silence;
use crate::memory;
use sinew_memcached_protocol::binary;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Values up to this length are copied out at once, and are received whole.
pub const SHORT_VALUE: u32 = 8 * 1024;

/// As much of a longer one at a time, while its shard is locked.
const PIECE: usize = 16 * 1024;

/// An answer is not longer than this, but for its value. A session that answers has room for it
/// at least.
const HEAD: usize = memory::SMALL;

/// As much of a long value at a time if there is no memory, or the client does not read.
const SMALLEST_PIECE: usize = HEAD - TAIL;

/// What stands behind a value is not longer than this.
const TAIL: usize = 8;

/// memcached takes memory for a longer one as it comes: what it says when there is none differs,
/// and what was there before stays.
const LARGEST_PIECE: u32 = 512 * 1024;

/// When so much is to be sent it is, even if there are more requests to answer.
const MOST_UNSENT: usize = 64 * 1024;

/// A piece of a long value, to send or to receive, counts as so many requests of a session's turn.
pub(super) const PIECE_COUNTS: u32 = 4;

/// The state of one connection.
pub struct Session<'a, S> {
    pub(super) server: &'a Server,
    pub(super) stream: &'a S,
    /// What others are told of it.
    pub(super) entry: &'a Entry,
    /// Whether the client has said who it is, if it has to.
    pub(super) is_authenticated: bool,
    /// Unique numbers of items that unsent answers are about: see `arithmetic`.
    pub(super) held: Vec<u64>,
    /// What is left of its turn: requests for a key that may be answered before others go first.
    turn: u32,
    /// As much of the answers memcached would have sent.
    pub(super) settled: usize,
    /// Answers that have not been sent.
    pub(super) out: Vec<u8>,
    pub(super) moment: Moment,
    /// For so long it waits for the next request before it gives up its fibre.
    lingers: Instant,
    /// As text is spoken, or the binary protocol.
    is_binary: bool,
    /// So many bytes at the beginning of what has come are a line without its end. A long one is
    /// not looked through again for each byte that comes.
    pub(super) unfinished: usize,
}

/// What a session has learnt of its client.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What it speaks, if it has said anything.
    pub is_binary: Option<bool>,
    /// Whether it has said who it is, if it has to.
    pub is_authenticated: bool,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing more is to be said.
    Over,
    /// The client has been silent since its last request was answered. It may go on.
    Silent,
}

/// What a session has to do when it has gone through what it had received.
pub enum Next {
    /// Wait for more.
    More,
    /// Take a large value piece by piece.
    Receive(Upload),
    /// Skip so many bytes, then say this.
    Swallow(u64, Vec<u8>),
    /// Tell the client what happens, and hear no more requests.
    Watch(Topics),
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
    /// Serves until the client has had enough, or says nothing for a while, or the server
    /// stops. Which protocol the client speaks shows with its first byte.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn serve(server: &'a Server, stream: &'a S, entry: &'a Entry, known: &mut Known) -> io::Result<End> {
        let now = Instant::now();
        let (moment, lingers) = (server.moment_at(now), now + server.options.runtime.linger);
        let out = Vec::new();
        let (is_binary, is_authenticated) = (known.is_binary.unwrap_or(false), known.is_authenticated);
        let held = Vec::new();
        let mut session = Session {
            server,
            stream,
            entry,
            is_authenticated,
            held,
            turn: server.options.max_reqs_per_event,
            settled: 0,
            out,
            moment,
            lingers,
            is_binary,
            unfinished: 0,
        };
        let mut input = Input::new(&server.allowance);
        loop {
            if let Some(end) = session.hear(&mut input)? {
                return session.send().map(|()| end);
            }
            let now = Instant::now();
            session.moment = server.moment_at(now);
            session.lingers = now + server.options.runtime.linger;
            if !input.is_busy() {
                // It has waited, or it is about to.
                session.turn = server.options.max_reqs_per_event;
            }
            if known.is_binary.is_none() {
                session.is_binary = input.bytes()[0] == binary::REQUEST;
                known.is_binary = Some(session.is_binary);
            }
            entry.set_state(State::Answers);
            entry.note_request(session.moment.now);
            if !session.answer(&mut input)? {
                return session.send().map(|()| End::Over);
            }
            known.is_authenticated = session.is_authenticated;
            session.send()?;
            entry.set_state(if input.bytes().is_empty() { State::Reads } else { State::Receives });
            if !input.is_busy() {
                session.out = Vec::new();
            }
        }
    }

    /// Answers all requests that have come. `false` if there shall be no more.
    #[inline]
    fn answer(&mut self, input: &mut Input<'_>) -> io::Result<bool> {
        self.out.try_reserve(HEAD)?;
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
                    self.send_some()?;
                    self.out.extend_from_slice(&answer);
                }
                Next::Watch(topics) => {
                    if !self.watch(topics)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Waits for a request, or for the rest of one. Gives how the session ends if nothing
    /// comes: that is between requests only, as it is if it is asked to stop.
    #[inline]
    fn hear(&mut self, input: &mut Input<'_>) -> io::Result<Option<End>> {
        let count = if !input.bytes().is_empty() {
            self.fill(input)?
        } else if self.server.is_stopping() {
            0
        } else {
            let count = match input.fill(self.stream, Some(self.lingers)) {
                Err(_) if self.server.is_stopping() => 0,
                Err(error) if is_silence(&error) => return Ok(Some(End::Silent)),
                count => count?,
            };
            self.server.traffic.received(count);
            count
        };
        Ok(if count > 0 { None } else { Some(End::Over) })
    }

    /// Waits for the rest of a request. A session that has no memory for it says so, and ends.
    #[inline]
    fn fill(&mut self, input: &mut Input<'_>) -> io::Result<usize> {
        let count = match input.fill(self.stream, None) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.send_some()?;
                self.say("SERVER_ERROR out of memory reading request", self.is_binary);
                return Ok(0);
            }
            Err(_) if self.server.is_stopping() => self.fill_late(input),
            count => count,
        }?;
        self.server.traffic.received(count);
        self.count_work(PIECE_COUNTS);
        if self.turn == 0 {
            self.give_way();
        }
        Ok(count)
    }

    /// What is left of a request has to come soon.
    #[cold]
    fn fill_late(&mut self, input: &mut Input<'_>) -> io::Result<usize> {
        let deadline = self.server.stop_deadline();
        sinew::cancel::shield(|| input.fill(self.stream, Some(deadline)))
    }

    /// Begins a request, or a further key of one: others go first if this session has had its turn.
    /// Makes room, as [`send_some`](Self::send_some) does.
    #[inline]
    pub(super) fn begin_request(&mut self) -> io::Result<()> {
        self.send_some()?;
        self.count_work(1);
        Ok(())
    }

    /// Counts work that is as much as so many requests for a key.
    #[inline]
    pub(super) fn count_work(&mut self, requests: u32) {
        self.turn = self.turn.saturating_sub(requests);
    }

    /// What it has done is work enough: others go before the next request.
    pub(super) fn end_turn(&mut self) {
        self.turn = 0;
    }

    /// Lets others go first, since this session has had its turn.
    #[cold]
    #[inline(never)]
    fn give_way(&mut self) {
        self.settle();
        self.server.yields.fetch_add(1, Relaxed);
        if self.out.len() <= HEAD && self.out.capacity() > HEAD {
            // A thousand may wait for their turns: none of them with a large buffer for little.
            self.keep(0..self.out.len());
        }
        sinew::yield_now();
        self.renew();
    }

    /// Others have had a turn, in which items may have expired or been flushed.
    fn renew(&mut self) {
        self.turn = self.server.options.max_reqs_per_event;
        self.moment = self.server.moment();
    }

    /// Sends all answers.
    pub(super) fn send(&mut self) -> io::Result<()> {
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

    /// Removes what has been sent.
    #[inline]
    fn sent(&mut self, count: usize) {
        self.server.traffic.sent(count);
        if count == self.out.len() {
            self.out.clear();
        } else {
            self.keep(count..self.out.len());
        }
    }

    /// Keeps a part of the answers, for a client that may take its time, and no more memory than
    /// for that. It is copied: cut off in its place, it would lie in the way of other buffers.
    #[cold]
    fn keep(&mut self, part: Range<usize>) {
        let mut kept = Vec::new();
        if kept.try_reserve_exact(part.len().max(HEAD)).is_ok() {
            kept.extend_from_slice(&self.out[part]);
            self.out = kept;
        } else {
            self.out.truncate(part.end);
            self.out.drain(..part.start);
        }
    }

    /// Before something is added to the answers, for which there is room then, but for a value.
    /// Sends if there is much to send, or no memory for more; gives way to others if this session
    /// has had its turn.
    ///
    /// # Errors
    /// Those of the connection; `OutOfMemory` if there is no room even so.
    #[inline]
    pub(super) fn send_some(&mut self) -> io::Result<()> {
        let room = self.out.capacity() - self.out.len();
        if self.turn == 0 || self.out.len() >= MOST_UNSENT || room < HEAD { self.send_some_slow() } else { Ok(()) }
    }

    /// Makes room for a value, and what stands behind it.
    #[inline]
    pub(super) fn reserve(&mut self, length: u32) -> io::Result<()> {
        memory::reserve(&mut self.out, length as usize + TAIL)
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
        // As much as this is there for each connection.
        Ok(self.out.try_reserve(HEAD)?)
    }

    /// Appends a long value to the answers, and sends them, piece by piece. Its item has been
    /// pinned by the caller. For a client that does not read no large buffer is kept: what could
    /// not be sent is copied again later.
    #[inline(never)]
    pub(super) fn send_pinned(&mut self, pinned: &Pinned<'_>, mut cursor: Cursor, length: u32) -> io::Result<()> {
        let store = &self.server.store;
        let mut left = length as usize;
        while left > 0 {
            self.send_some()?;
            let (before, start) = (self.out.len(), cursor);
            let mut batch = left.min(MOST_UNSENT - before);
            if batch == left && left > SMALLEST_PIECE && length as usize > MOST_UNSENT {
                // Only a little of it waits for what comes behind it: it is not pinned any more then.
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
                // What comes behind it can be sent with it.
                return Ok(());
            }
            let (all, sent) = (self.out.len(), self.try_send()?);
            if sent == all {
                self.sent(all);
                continue;
            }
            // Wait with little: with the rest of what came before, or with a little of the value.
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

    /// Sends what can be sent without waiting. Gives how much that was; it is still there.
    fn try_send(&self) -> io::Result<usize> {
        match self.stream.write_until(&self.out, Instant::now()) {
            Err(error) if is_silence(&error) || self.server.is_stopping() => Ok(0),
            count => count,
        }
    }

    /// Receives a large value. `false` if the client has gone.
    #[inline(never)]
    fn receive(&mut self, upload: Upload, input: &mut Input<'_>) -> io::Result<bool> {
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

    /// As many bytes follow a value.
    pub(super) fn tail(&self) -> usize {
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

    /// Skips bytes. `false` if the client has gone.
    #[inline(never)]
    fn swallow(&mut self, mut count: u64, input: &mut Input<'_>) -> io::Result<bool> {
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

    /// Begins to take a large value of which `begun` is here. `None` if there is no memory.
    pub(super) fn begin_upload(&mut self, head: &[u8], key: &[u8], begun: &[u8], length: u32) -> Option<Upload> {
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
