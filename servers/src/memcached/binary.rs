//! The binary protocol: requests and their answers.

use super::VERSION;
use super::arithmetic::{Calculated, Calculation, Vivify};
use super::session::{Dialect, Fetch, Kept, Next, SHORT_VALUE, Session, Step};
use super::store::{Content, Draft, Outcome, Terms};
use super::stream::Stream;
use super::traffic::Reason;
use sinew_memcached_protocol::Verb;
use sinew_memcached_protocol::binary::{Answer, Command, Frame, Request, Status, parse, push_answer};
use std::io;

impl<S: Stream> Session<'_, S> {
    /// Answers all complete requests.
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
        self.refuse_item(Dialect::Binary, verb, key, flags, true);
        Some(Next::Swallow(value.into(), refusal(request, Status::TooLarge)))
    }

    fn binary_upload(&mut self, request: &Request<'_>, head: &[u8], begun: &[u8], length: u32) -> Next {
        let Command::Store { verb, key, flags, .. } = request.command else { return Next::Close };
        match self.begin_upload(head, key, begun, length) {
            Some(upload) => Next::Receive(upload),
            None => {
                self.refuse_item(Dialect::Binary, verb, key, flags, false);
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
            && let Command::Store { verb, key, flags, .. } = request.command
        {
            if !is_noticed_late {
                self.refuse_item(Dialect::Binary, verb, key, flags, false);
            }
            let text = if is_noticed_late { "Out of memory during read" } else { NO_MEMORY };
            self.out.extend_from_slice(&refusal_with(&request, Status::OutOfMemory, text));
        }
    }

    fn binary_store(&mut self, request: &Request<'_>, content: Content<'_>) {
        let Command::Store { verb, key, flags, expiry, .. } = request.command else { return };
        let server = self.server;
        let mut terms = Terms::new(key, flags, self.expiry(expiry.into()), &server.store.fresh, self.moment);
        terms.unique = request.unique;
        let is_compared = request.unique != 0 && matches!(verb, Verb::Set | Verb::Add | Verb::Replace);
        let verb = if is_compared { Verb::Cas } else { verb };
        match self.store_item(Dialect::Binary, verb, &mut terms, content) {
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
            Command::Get { key, with_key, touch } => {
                let fetch = touch.map_or(Fetch::Get, |expiry| Fetch::GetAndTouch(expiry.into()));
                return self.binary_get(request, key, with_key, fetch);
            }
            Command::Touch { key, expiry } => {
                return self.binary_get(request, key, false, Fetch::Touch(expiry.into()));
            }
            Command::Delete { key } => self.binary_delete(request, key),
            Command::Arithmetic { key, add, delta, initial, expiry } => {
                // With the highest expiry the client asks not to create an item.
                let vivify = (expiry != u32::MAX).then(|| Vivify { initial, expiry: self.expiry(expiry.into()) });
                self.binary_arithmetic(request, &Calculation { key, add, delta, unique: request.unique, vivify });
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

    #[inline]
    fn binary_get(&mut self, request: &Request<'_>, key: &[u8], with_key: bool, fetch: Fetch) -> io::Result<()> {
        let found = self.fetch(Dialect::Binary, key, fetch);
        let key_sent = if with_key { key } else { &[] };
        let Some(item) = found.item else {
            drop(found);
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
        let blocks = &found.shard.blocks;
        let length = if matches!(fetch, Fetch::Touch(_)) { 0 } else { blocks.length(item) };
        let answer = Answer {
            extras: &blocks.flags(item).to_be_bytes(),
            key: key_sent,
            value_length: length,
            unique: self.server.shown(blocks.unique(item)),
        };
        push_answer(&mut self.out, request, Status::Success, answer);
        self.push_value(found, item, length)
    }

    fn binary_delete(&mut self, request: &Request<'_>, key: &[u8]) {
        let unique = (request.unique != 0).then_some(request.unique);
        match self.find_to_delete(Dialect::Binary, key, unique) {
            Ok((found, item)) => {
                found.delete(item);
                if !request.quiet {
                    self.succeed(request, 0);
                }
            }
            Err(Kept::NotFound) => self.fail(request, Status::NotFound),
            Err(Kept::Exists) => self.fail(request, Status::Exists),
        }
    }

    fn binary_arithmetic(&mut self, request: &Request<'_>, wanted: &Calculation<'_>) {
        let (found, calculated) = self.calculate(wanted);
        match calculated {
            Calculated::Value { .. } if request.quiet => {}
            Calculated::Value { value, item, .. } => {
                let unique = self.server.shown(found.shard.blocks.unique(item));
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

/// Returns an answer that refuses a request, with the usual text of its status.
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
