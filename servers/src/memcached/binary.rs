//! The binary protocol, spoken.

use super::VERSION;
use super::arithmetic::{Calculated, calculate};
use super::session::{Next, Pinned, SHORT_VALUE, Session, Step};
use super::store::{Content, Draft, Outcome, Terms};
use super::stream::Stream;
use super::traffic::Reason;
use sinew_memcached_protocol::binary::{Answer, Command, Frame, Request, Status, parse, push_answer};
use sinew_memcached_protocol::{Verb, number};
use std::io;

impl<S: Stream> Session<'_, S> {
    /// Answers all requests that are complete.
    #[inline(never)]
    pub(super) fn binary(&mut self, bytes: &[u8]) -> io::Result<Step> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let (request, length) = match parse(rest) {
                Frame::Whole { request, taken } => (request, taken),
                Frame::Partial => return Ok(Step { taken, next: Next::More }),
                Frame::Garbage => {
                    self.entry.set_reason(Reason::Error);
                    return Ok(Step { taken, next: Next::Close });
                }
            };
            self.begin_request()?;
            let data = &rest[length..];
            self.server.log(2, || format!("< {:?}", request.command));
            match request.command {
                Command::Store { length: value, .. } => {
                    let here = data.len().min(value as usize);
                    if let Some(next) = self.refuse_large(&request, value) {
                        return Ok(Step { taken: taken + length, next });
                    }
                    if here == value as usize {
                        self.binary_store(&request, Content::Whole(&data[..here]));
                        taken += here;
                    } else if value <= SHORT_VALUE {
                        return Ok(Step { taken, next: Next::More });
                    } else {
                        let next = self.binary_upload(&request, &rest[..length], &data[..here], value);
                        return Ok(Step { taken: taken + length + here, next });
                    }
                }
                Command::Unknown { swallow } => {
                    let next = Next::Swallow(swallow.into(), refusal(&request, Status::Unknown));
                    return Ok(Step { taken: taken + length, next });
                }
                Command::Quit => {
                    if !request.quiet {
                        self.succeed(&request, 0);
                    }
                    return Ok(Step { taken: taken + length, next: Next::Close });
                }
                Command::Malformed | Command::Inconsistent => {
                    let is_known = request.command == Command::Malformed;
                    self.fail(&request, if is_known { Status::Invalid } else { Status::Unknown });
                    return Ok(Step { taken: taken + length, next: Next::Close });
                }
                _ => self.binary_other(&request)?,
            }
            taken += length;
        }
    }

    fn fail(&mut self, request: &Request<'_>, status: Status) {
        self.out.extend_from_slice(&refusal(request, status));
    }

    fn succeed(&mut self, request: &Request<'_>, unique: u64) {
        push_answer(&mut self.out, request, Status::Success, Answer { unique, ..Answer::default() });
    }

    fn refuse_large(&mut self, request: &Request<'_>, value: u32) -> Option<Next> {
        let Command::Store { verb, key, flags, .. } = request.command else { return None };
        if self.server.store.size(key.len(), flags, value as usize) <= self.server.largest {
            return None;
        }
        let terms = Terms::new(key, flags, 0, &self.server.store.fresh, self.moment);
        self.tell_store(verb, &terms, 0, None);
        self.binary_forget(verb, key, true);
        Some(Next::Swallow(value.into(), refusal(request, Status::TooLarge)))
    }

    fn binary_forget(&mut self, verb: Verb, key: &[u8], is_too_large: bool) {
        let place = self.server.store.place(key);
        let mut shard = self.server.store.lock(place.shard);
        if is_too_large {
            shard.counters.store_too_large += 1;
        } else {
            shard.counters.store_no_memory += 1;
        }
        if verb == Verb::Set
            && let Some(item) = shard.find(place.hash, key, self.moment)
        {
            shard.remove(item);
        }
    }

    fn binary_upload(&mut self, request: &Request<'_>, head: &[u8], begun: &[u8], length: u32) -> Next {
        let Command::Store { verb, key, .. } = request.command else { return Next::Close };
        match self.begin_upload(head, key, begun, length) {
            Some(upload) => Next::Receive(upload),
            None => {
                self.binary_forget(verb, key, false);
                let left = u64::from(length) - begun.len() as u64;
                Next::Swallow(left, refusal_with(request, Status::OutOfMemory, NO_MEMORY))
            }
        }
    }

    pub(super) fn binary_uploaded(&mut self, head: &[u8], draft: Option<Draft>, length: u32) {
        if let (Frame::Whole { request, .. }, Some(draft)) = (parse(head), draft) {
            self.binary_store(&request, Content::Drafted(draft, length));
        }
    }

    pub(super) fn binary_upload_failed(&mut self, head: &[u8], is_noticed_late: bool) {
        if let Frame::Whole { request, .. } = parse(head)
            && let Command::Store { verb, key, .. } = request.command
        {
            if !is_noticed_late {
                self.binary_forget(verb, key, false);
            }
            let text = if is_noticed_late { "Out of memory during read" } else { NO_MEMORY };
            self.out.extend_from_slice(&refusal_with(&request, Status::OutOfMemory, text));
        }
    }

    fn binary_store(&mut self, request: &Request<'_>, content: Content<'_>) {
        let Command::Store { verb, key, flags, expiry, .. } = request.command else { return };
        let server = self.server;
        let place = server.store.place(key);
        let expiry = server.clock.expiry(expiry.into(), self.moment.now);
        let mut terms = Terms::new(key, flags, expiry, &server.store.fresh, self.moment);
        terms.unique = request.unique;
        let is_compared = request.unique != 0 && matches!(verb, Verb::Set | Verb::Add | Verb::Replace);
        let verb = if is_compared { Verb::Cas } else { verb };
        let length = content.length();
        server.prefixes.note_set(key);
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let outcome = shard.store(verb, place.hash, &mut terms, content);
        drop(shard);
        self.tell_store(verb, &terms, length, Some(outcome));
        if expiry != 0 {
            server.sweeper.call();
        }
        match outcome {
            Outcome::Stored { .. } if request.quiet => {}
            Outcome::Stored { unique } => self.succeed(request, server.shown(unique)),
            Outcome::Exists => self.fail(request, Status::Exists),
            Outcome::NotFound => self.fail(request, Status::NotFound),
            Outcome::OutOfMemory => {
                self.out.extend_from_slice(&refusal_with(request, Status::OutOfMemory, NO_MEMORY));
            }
            Outcome::NotStored => self.fail(
                request,
                match verb {
                    Verb::Add => Status::Exists,
                    Verb::Replace => Status::NotFound,
                    _ => Status::NotStored,
                },
            ),
        }
    }

    fn binary_other(&mut self, request: &Request<'_>) -> io::Result<()> {
        match request.command {
            Command::Get { key, with_key, touch } => return self.binary_get(request, key, with_key, touch, true),
            Command::Touch { key, expiry } => return self.binary_get(request, key, false, Some(expiry), false),
            Command::Delete { key } => self.binary_delete(request, key),
            Command::Arithmetic { key, add, delta, initial, expiry } => {
                self.binary_arithmetic(request, key, add, delta, initial, expiry);
            }
            Command::Flush { delay } => {
                if !self.server.flush(delay.into(), self.moment) {
                    self.fail(request, Status::AuthError);
                } else {
                    self.moment = self.server.moment();
                    if !request.quiet {
                        self.succeed(request, 0);
                    }
                }
            }
            Command::Noop => self.succeed(request, 0),
            Command::Version => {
                let answer = Answer { value_length: VERSION.len() as u32, ..Answer::default() };
                push_answer(&mut self.out, request, Status::Success, answer);
                self.out.extend_from_slice(VERSION.as_bytes());
            }
            Command::Stat { key } => return self.binary_stats(request, key),
            _ => {}
        }
        Ok(())
    }

    fn binary_get(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
        with_key: bool,
        touch: Option<u32>,
        with_value: bool,
    ) -> io::Result<()> {
        let server = self.server;
        let place = server.store.place(key);
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let found = shard.find(place.hash, key, self.moment);
        shard.count_get(found, touch.is_some());
        server.prefixes.note_get(key, found.is_some());
        let key_sent = if with_key { key } else { &[] };
        let Some(item) = found else {
            drop(shard);
            match (request.quiet, with_key) {
                (true, _) => {}
                (false, true) => {
                    let answer = Answer { key: key_sent, ..Answer::default() };
                    push_answer(&mut self.out, request, Status::NotFound, answer);
                }
                (false, false) => self.fail(request, Status::NotFound),
            }
            return Ok(());
        };
        shard.notice(item, self.moment);
        if let Some(expiry) = touch {
            shard.set_expiry(item, server.clock.expiry(expiry.into(), self.moment.now));
            server.sweeper.call();
        }
        let length = if with_value { shard.blocks.length(item) } else { 0 };
        let answer = Answer {
            extras: &shard.blocks.flags(item).to_be_bytes(),
            key: key_sent,
            value_length: length,
            unique: server.shown(shard.blocks.unique(item)),
        };
        push_answer(&mut self.out, request, Status::Success, answer);
        let mut cursor = shard.blocks.value(item);
        let is_short = length <= SHORT_VALUE && self.reserve(length).is_ok();
        if is_short || !shard.pin(item) {
            self.reserve(length)?;
            shard.blocks.copy_out(&mut cursor, length as usize, &mut self.out);
            return Ok(());
        }
        drop(shard);
        self.send_pinned(&Pinned { server, place, item }, cursor, length)
    }

    fn binary_delete(&mut self, request: &Request<'_>, key: &[u8]) {
        let place = self.server.store.place(key);
        self.server.prefixes.note_delete(key);
        let mut shard = self.server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let status = match shard.find(place.hash, key, self.moment) {
            None => {
                shard.counters.delete_misses += 1;
                Status::NotFound
            }
            Some(item) if request.unique != 0 && request.unique != shard.compared(item) => Status::Exists,
            Some(item) => {
                shard.class(item).counters.delete_hits += 1;
                shard.remove(item);
                Status::Success
            }
        };
        drop(shard);
        match status {
            Status::Success if request.quiet => {}
            Status::Success => self.succeed(request, 0),
            status => self.fail(request, status),
        }
    }

    fn binary_arithmetic(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
        add: bool,
        delta: u64,
        initial: u64,
        expiry: u32,
    ) {
        let server = self.server;
        let place = server.store.place(key);
        let mut shard = server.store.lock(place.shard);
        let fresh = &server.store.fresh;
        self.tell_fetch(&shard, place, key);
        let mut calculated =
            calculate(&mut shard, place.hash, key, add, delta, request.unique, &[], fresh, self.moment);
        if matches!(calculated, Calculated::NotFound) && expiry != u32::MAX {
            let mut text = Vec::new();
            number::push(&mut text, initial);
            let expiry = server.clock.expiry(expiry.into(), self.moment.now);
            let terms = Terms::new(key, 0, expiry, fresh, self.moment);
            calculated = match shard.draft(key, &text, text.len(), self.moment) {
                Some(draft) => {
                    let item = shard.publish(draft, None, place.hash, &terms, text.len() as u32);
                    Calculated::Value { value: initial, item }
                }
                None => Calculated::OutOfMemory,
            };
            server.sweeper.call();
        }
        let unique = match calculated {
            Calculated::Value { item, .. } => server.shown(shard.blocks.unique(item)),
            _ => 0,
        };
        drop(shard);
        match calculated {
            Calculated::Value { .. } if request.quiet => {}
            Calculated::Value { value, .. } => {
                let answer = Answer { value_length: 8, unique, ..Answer::default() };
                push_answer(&mut self.out, request, Status::Success, answer);
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            Calculated::NotFound => self.fail(request, Status::NotFound),
            Calculated::Exists => self.fail(request, Status::Exists),
            Calculated::NotNumeric => self.fail(request, Status::NotNumeric),
            Calculated::OutOfMemory => self.fail(request, Status::OutOfMemory),
        }
    }
}

const NO_MEMORY: &str = "Out of memory allocating item";

/// An answer that says why not.
fn refusal(request: &Request<'_>, status: Status) -> Vec<u8> {
    refusal_with(request, status, status.text())
}

#[cold]
fn refusal_with(request: &Request<'_>, status: Status, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_answer(&mut out, request, status, Answer { value_length: text.len() as u32, ..Answer::default() });
    out.extend_from_slice(text.as_bytes());
    out
}
