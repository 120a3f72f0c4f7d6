//! The text protocol: requests and their answers. Requests that bring a value are in `data`.

mod data;

use crate::memcached::VERSION;
use crate::memcached::arithmetic::{Calculated, Calculation, NOT_NUMERIC};
use crate::memcached::session::{Dialect, Fetch, Kept, Next, Session, Step};
use crate::memcached::stream::Stream;
use crate::memcached::traffic::Reason;
use data::Data;
use sinew_memcached_protocol::text::{self, Command, Get};
use sinew_memcached_protocol::{LONGEST_LINE, Line, Refusal, line, meta, number};
use std::io;

/// Room for a key that is decoded from base64. It is longer than the longest key.
pub type Scratch = [u8; sinew_memcached_protocol::LONGEST_KEY + 2];

impl<S: Stream> Session<'_, S> {
    /// Answers all complete requests. It is not inlined, so that a waiting session has no frame
    /// for it.
    #[inline(never)]
    pub(in crate::memcached) fn text(&mut self, bytes: &[u8]) -> io::Result<Step> {
        if self.unfinished > LONGEST_LINE && !bytes[self.unfinished..].contains(&b'\n') {
            self.unfinished = bytes.len();
            return Ok(Step { taken: 0, next: Next::More });
        }
        self.unfinished = 0;
        self.settle();
        let mut taken = 0;
        loop {
            if !self.is_authenticated {
                let step = self.authenticate(&bytes[taken..]);
                if step.taken == 0 {
                    return Ok(Step { taken, next: step.next });
                }
                taken += step.taken;
                continue;
            }
            let rest = &bytes[taken..];
            let (words, length) = match line(rest) {
                Line::Whole { line, taken } => (line, taken),
                Line::Partial => {
                    self.unfinished = rest.len();
                    return Ok(Step { taken, next: Next::More });
                }
                Line::Endless => {
                    self.entry.set_reason(Reason::Error);
                    return Ok(Step { taken, next: Next::Close });
                }
            };
            self.server.log(2, || format!("< {}", String::from_utf8_lossy(&words[..words.len().min(LONGEST_LINE)])));
            self.begin_request()?;
            let command = text::parse(words);
            match command {
                Command::Get(get) => self.get(get)?,
                Command::Store(_) | Command::Meta(meta::Command::Set { .. }) => {
                    match self.with_data(&command, &rest[..length], &rest[length..]) {
                        Data::Taken(data) => taken += data,
                        Data::Missing => return Ok(Step { taken, next: Next::More }),
                        Data::Next(data, next) => return Ok(Step { taken: taken + length + data, next }),
                    }
                }
                Command::Quit | Command::Http => {
                    if matches!(command, Command::Http) {
                        self.entry.set_reason(Reason::Error);
                    }
                    return Ok(Step { taken: taken + length, next: Next::Close });
                }
                Command::Refused(refusal) if refusal.swallow > 0 => {
                    let next = Next::Swallow(refusal.swallow.into(), text_of(refusal));
                    return Ok(Step { taken: taken + length, next });
                }
                Command::Watch(words) => {
                    if let Some(next) = self.begin_watch(words) {
                        return Ok(Step { taken: bytes.len(), next });
                    }
                }
                Command::Shutdown(words) => {
                    if let Some(next) = self.shut_down(words) {
                        return Ok(Step { taken: taken + length, next });
                    }
                }
                other => self.other(other)?,
            }
            taken += length;
        }
    }

    /// Notes that memcached would send all answers now.
    #[inline]
    pub(in crate::memcached) fn settle(&mut self) {
        self.settled = self.out.len();
        self.held.clear();
    }

    /// Answers with a line, unless the client wants no reply.
    #[inline]
    pub(in crate::memcached) fn say(&mut self, text: &str, noreply: bool) {
        if !noreply {
            self.out.extend_from_slice(text.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn get(&mut self, get: Get<'_>) -> io::Result<()> {
        for (number, key) in get.keys.enumerate() {
            if number > 0 {
                self.begin_request()?;
            }
            self.get_one(key, &get)?;
        }
        self.out.extend_from_slice(b"END\r\n");
        self.settle();
        Ok(())
    }

    #[inline]
    fn get_one(&mut self, key: &[u8], get: &Get<'_>) -> io::Result<()> {
        let fetch = get.touch.map_or(Fetch::Get, |expiry| Fetch::GetAndTouch(expiry.into()));
        let found = self.fetch(Dialect::Text, key, fetch);
        let Some(item) = found.item else { return Ok(()) };
        let (length, blocks) = (found.shard.blocks.length(item), &found.shard.blocks);
        let out = &mut self.out;
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.push(b' ');
        number::push(out, blocks.flags(item).into());
        out.push(b' ');
        number::push(out, length.into());
        if get.unique {
            out.push(b' ');
            number::push(out, self.server.shown(blocks.unique(item)));
        }
        out.extend_from_slice(b"\r\n");
        self.push_value(found, item, length)?;
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    #[inline(never)]
    fn other(&mut self, command: Command<'_>) -> io::Result<()> {
        let server = self.server;
        match command {
            Command::Meta(command) => return self.meta(command),
            Command::Refused(refusal) => self.say(refusal.text, refusal.noreply),
            Command::Delete { key, noreply } => self.delete(key, noreply),
            Command::Arithmetic { key, add, delta, noreply } => self.arithmetic(key, add, delta, noreply),
            Command::Touch { key, expiry, noreply } => self.touch(key, expiry, noreply),
            Command::FlushAll { delay, noreply } => {
                if server.flush(delay.into(), self.moment) {
                    self.moment = server.moment();
                    self.say("OK", noreply);
                } else {
                    self.say("CLIENT_ERROR flush_all not allowed", noreply);
                }
            }
            Command::Verbosity { level, noreply } => {
                server.set_verbosity(level);
                self.say("OK", noreply);
            }
            Command::Stats(words) => return self.stats(words),
            Command::Version => self.say(&format!("VERSION {VERSION}"), false),
            Command::MemoryLimit { megabytes, noreply } => self.set_memory_limit(megabytes, noreply),
            Command::Slabs(words) => self.slabs(words),
            Command::Lru(words) => self.lru(words),
            Command::Crawler(words) => return self.crawler(words),
            Command::External(words) => self.external(words),
            Command::RefreshCertificates => self.out.extend_from_slice(b"Error TLS not enabled\r\n"),
            Command::Get(_) | Command::Store(_) | Command::Quit | Command::Http => {}
            Command::Watch(_) | Command::Shutdown(_) => {}
        }
        Ok(())
    }

    #[inline(never)]
    fn delete(&mut self, key: &[u8], noreply: bool) {
        let text = match self.find_to_delete(Dialect::Text, key, None) {
            Ok((found, item)) => {
                found.delete(item);
                "DELETED"
            }
            Err(Kept::NotFound | Kept::Exists) => "NOT_FOUND",
        };
        self.say(text, noreply);
    }

    #[inline(never)]
    fn touch(&mut self, key: &[u8], expiry: i32, noreply: bool) {
        let found = self.fetch(Dialect::Text, key, Fetch::Touch(expiry.into())).item;
        self.say(if found.is_some() { "TOUCHED" } else { "NOT_FOUND" }, noreply);
    }

    #[inline(never)]
    fn arithmetic(&mut self, key: &[u8], add: bool, delta: u64, noreply: bool) {
        let (found, result) = self.calculate(&Calculation { key, add, delta, unique: 0, vivify: None });
        drop(found);
        match result {
            Calculated::Value { value, .. } if !noreply => {
                number::push(&mut self.out, value);
                self.out.extend_from_slice(b"\r\n");
            }
            Calculated::Value { .. } => {}
            Calculated::NotFound => self.say("NOT_FOUND", noreply),
            Calculated::NotNumeric => self.say(NOT_NUMERIC, noreply),
            Calculated::Exists => self.say("EXISTS", noreply),
            Calculated::OutOfMemory => self.say("SERVER_ERROR out of memory", noreply),
        }
    }
}

fn text_of(refusal: Refusal) -> Vec<u8> {
    format!("{}\r\n", refusal.text).into_bytes()
}
