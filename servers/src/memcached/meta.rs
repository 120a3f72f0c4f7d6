//! The meta commands, spoken.

use super::arithmetic::{Calculated, NOT_NUMERIC, calculate};
use super::session::{Pinned, SHORT_VALUE, Session};
use super::store::{BASE64, Content, FETCHED, Fresh, Moment, Number, Outcome, STALE, Shard, Terms, WON};
use super::stream::Stream;
use super::text::Scratch;
use sinew_memcached_protocol::meta::{Command, Key, Request};
use sinew_memcached_protocol::{Verb, base64, number};
use std::io;

impl<S: Stream> Session<'_, S> {
    #[inline]
    pub(super) fn meta(&mut self, command: Command<'_>) -> io::Result<()> {
        match command {
            Command::Get(request) => return self.meta_get(&request),
            Command::Noop => {
                self.out.extend_from_slice(b"MN\r\n");
                self.settle();
            }
            Command::Delete(request) => self.meta_delete(&request),
            Command::Arithmetic { request, add } => self.meta_arithmetic(&request, add),
            Command::Debug(key) => self.meta_debug(key),
            Command::Set { .. } => {}
        }
        Ok(())
    }

    #[inline(never)]
    fn meta_get(&mut self, request: &Request<'_>) -> io::Result<()> {
        let mut scratch: Scratch = [0; _];
        let key = request.key.decode(&mut scratch);
        let server = self.server;
        let place = server.store.place(key);
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let mut found = shard.find(place.hash, key, self.moment);
        let mut is_new = false;
        if found.is_none() && request.vivify.is_some() {
            // When it expires is set as the flags are gone through.
            let terms = Terms::new(key, 0, 0, &server.store.fresh, self.moment);
            let draft = shard.draft(key, b"", 0, self.moment);
            found = draft.map(|draft| shard.publish(draft, None, place.hash, &terms, 0));
            is_new = found.is_some();
        }
        shard.count_get(found, found.is_some() && request.expiry.is_some());
        let Some(item) = found else {
            drop(shard);
            if !request.quiet {
                self.out.extend_from_slice(b"EN");
                self.push_echo(request, key);
                self.out.extend_from_slice(b"\r\n");
            }
            return Ok(());
        };
        if self.held.try_reserve(1).is_ok() {
            self.held.push(shard.blocks.unique(item));
        }
        let length = shard.blocks.length(item);
        if request.value {
            self.out.extend_from_slice(b"VA ");
            number::push(&mut self.out, length.into());
        } else {
            self.out.extend_from_slice(b"HD");
        }
        let has_won = self.push_item(&mut shard, request, key, item, is_new);
        self.push_win(&mut shard, item, has_won);
        self.out.extend_from_slice(b"\r\n");
        let mut cursor = shard.blocks.value(item);
        if !request.unnoticed {
            shard.notice(item, self.moment);
        }
        if request.expiry.is_some() || request.vivify.is_some() {
            server.sweeper.call();
        }
        if !request.value {
            return Ok(());
        }
        let is_short = length <= SHORT_VALUE && self.reserve(length).is_ok();
        if is_short || !shard.pin(item) {
            self.reserve(length)?;
            shard.blocks.copy_out(&mut cursor, length as usize, &mut self.out);
            drop(shard);
        } else {
            drop(shard);
            self.send_pinned(&Pinned { server, place, item }, cursor, length)?;
        }
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Goes through the flags, and does and says what each wants. Whether the client has won
    /// the right to renew the item.
    fn push_item(&mut self, shard: &mut Shard, request: &Request<'_>, key: &[u8], item: Number, is_new: bool) -> bool {
        let mut has_won = false;
        for flag in request.flags() {
            match flag[0] {
                b'T' => self.set_expiry(shard, item, request.expiry),
                b'N' if is_new => {
                    self.set_expiry(shard, item, request.vivify);
                    has_won = true;
                }
                b'R' => {
                    let limit = self.server.clock.expiry(request.recache.unwrap_or(0).into(), self.moment.now);
                    let expiry = shard.blocks.expiry(item);
                    let is_free = !is_new && !shard.blocks.is_marked(item, WON);
                    has_won |= is_free && expiry != 0 && expiry < limit;
                }
                b's' => self.push_number(b's', shard.blocks.length(item).into()),
                b't' => self.push_ttl(shard, item),
                b'c' => self.push_number(b'c', self.server.shown(shard.blocks.unique(item))),
                b'f' => self.push_number(b'f', shard.blocks.flags(item).into()),
                b'l' => self.push_number(b'l', self.moment.now.saturating_sub(shard.blocks.used_at(item)).into()),
                b'h' => self.push_number(b'h', shard.blocks.is_marked(item, FETCHED).into()),
                b'O' => self.push_word(flag),
                b'k' => self.push_key(key, shard.blocks.is_marked(item, BASE64)),
                _ => {}
            }
        }
        has_won
    }

    fn set_expiry(&self, shard: &mut Shard, item: Number, expiry: Option<i32>) {
        let expiry = self.server.clock.expiry(expiry.unwrap_or(0).into(), self.moment.now);
        shard.set_expiry(item, expiry);
    }

    /// Says whether the item is outdated, and who renews it.
    fn push_win(&mut self, shard: &mut Shard, item: Number, mut has_won: bool) {
        let (is_taken, is_stale) = (shard.blocks.is_marked(item, WON), shard.blocks.is_marked(item, STALE));
        if is_taken {
            self.push_word(b"Z");
        }
        if is_stale {
            self.push_word(b"X");
            has_won |= !is_taken;
        }
        if has_won {
            self.push_word(b"W");
            shard.mark(item, WON, 0);
        }
    }

    fn push_word(&mut self, word: &[u8]) {
        self.out.push(b' ');
        self.out.extend_from_slice(word);
    }

    fn push_number(&mut self, letter: u8, value: u64) {
        self.out.extend_from_slice(&[b' ', letter]);
        number::push(&mut self.out, value);
    }

    fn push_ttl(&mut self, shard: &Shard, item: Number) {
        match shard.blocks.expiry(item) {
            0 => self.push_word(b"t-1"),
            // It may have been set to the past just now: then it is a large number.
            expiry => self.push_number(b't', expiry.wrapping_sub(self.moment.now).into()),
        }
    }

    fn push_key(&mut self, key: &[u8], is_base64: bool) {
        self.out.extend_from_slice(b" k");
        if is_base64 {
            base64::push(&mut self.out, key);
            self.out.extend_from_slice(b" b");
        } else {
            self.out.extend_from_slice(key);
        }
    }

    /// What a client wants back in any case.
    fn push_echo(&mut self, request: &Request<'_>, key: &[u8]) {
        for flag in request.flags() {
            match flag[0] {
                b'O' => self.push_word(flag),
                b'k' => self.push_key(key, request.key.is_base64()),
                _ => {}
            }
        }
    }

    #[inline(never)]
    pub(super) fn meta_set(&mut self, request: &Request<'_>, verb: Verb, content: Content<'_>) {
        let mut scratch: Scratch = [0; _];
        let key = request.key.decode(&mut scratch);
        let server = self.server;
        let place = server.store.place(key);
        let expiry = server.clock.expiry(request.expiry.unwrap_or(0).into(), self.moment.now);
        let mut terms = Terms::new(key, request.client_flags, expiry, &server.store.fresh, self.moment);
        terms.unique = request.unique.unwrap_or(0);
        terms.accepts_stale = request.stale && verb == Verb::Cas;
        terms.base64 = request.key.is_base64();
        let length = content.length();
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let outcome = shard.store(verb, place.hash, &mut terms, content);
        drop(shard);
        self.tell_store(verb, &terms, length, Some(outcome));
        if expiry != 0 {
            server.sweeper.call();
        }
        let (code, unique) = match outcome {
            Outcome::Stored { .. } if request.quiet => return,
            Outcome::Stored { unique } => ("HD", unique),
            Outcome::NotStored => ("NS", 0),
            Outcome::Exists => ("EX", 0),
            Outcome::NotFound => ("NF", 0),
            Outcome::OutOfMemory => return self.say("SERVER_ERROR out of memory storing object", false),
        };
        self.out.extend_from_slice(code.as_bytes());
        for flag in request.flags() {
            match flag[0] {
                b'O' => self.push_word(flag),
                b'k' => self.push_key(key, request.key.is_base64()),
                b'c' => self.push_number(b'c', server.shown(unique)),
                _ => {}
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline(never)]
    fn meta_delete(&mut self, request: &Request<'_>) {
        let mut scratch: Scratch = [0; _];
        let key = request.key.decode(&mut scratch);
        let place = self.server.store.place(key);
        let mut shard = self.server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let code = match shard.find(place.hash, key, self.moment) {
            None => {
                shard.counters.delete_misses += 1;
                "NF"
            }
            Some(item) if request.unique.is_some_and(|unique| unique != shard.compared(item)) => {
                shard.counters.delete_misses += 1;
                "EX"
            }
            Some(item) if request.stale => {
                if let Some(expiry) = request.expiry {
                    shard.set_expiry(item, self.server.clock.expiry(expiry.into(), self.moment.now));
                }
                shard.mark(item, STALE, WON);
                shard.blocks.set_unique(item, self.server.store.fresh.next());
                "HD"
            }
            Some(item) => {
                shard.class(item).counters.delete_hits += 1;
                shard.remove(item);
                "HD"
            }
        };
        drop(shard);
        if request.quiet && code == "HD" {
            return;
        }
        self.out.extend_from_slice(code.as_bytes());
        self.push_echo(request, key);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline(never)]
    fn meta_arithmetic(&mut self, request: &Request<'_>, add: bool) {
        let mut scratch: Scratch = [0; _];
        let key = request.key.decode(&mut scratch);
        let server = self.server;
        let place = server.store.place(key);
        let mut shard = server.store.lock(place.shard);
        let unique = request.unique.unwrap_or(0);
        let fresh = &server.store.fresh;
        self.tell_fetch(&shard, place, key);
        let mut calculated =
            calculate(&mut shard, place.hash, key, add, request.delta, unique, &self.held, fresh, self.moment);
        let is_new = matches!(calculated, Calculated::NotFound) && request.vivify.is_some();
        if is_new {
            calculated = vivify(&mut shard, place.hash, key, request.initial, fresh, self.moment);
        }
        let start = self.out.len();
        match calculated {
            Calculated::Value { value, item } => {
                self.push_calculated(&mut shard, request, key, item, value, is_new);
            }
            Calculated::NotNumeric => return self.say(NOT_NUMERIC, false),
            Calculated::OutOfMemory => return self.say("SERVER_ERROR out of memory", false),
            Calculated::NotFound => self.out.extend_from_slice(b"NF"),
            Calculated::Exists => self.out.extend_from_slice(b"EX"),
        }
        drop(shard);
        server.sweeper.call();
        if !matches!(calculated, Calculated::Value { .. }) {
            self.push_echo(request, key);
        }
        self.out.extend_from_slice(b"\r\n");
        if request.has_long_opaque() {
            self.out.truncate(start);
            self.say(request.refusal_of_opaque().text, false);
        } else if request.quiet && !is_new && matches!(calculated, Calculated::Value { .. }) {
            self.out.truncate(start);
        }
    }

    fn push_calculated(
        &mut self,
        shard: &mut Shard,
        request: &Request<'_>,
        key: &[u8],
        item: Number,
        value: u64,
        is_new: bool,
    ) {
        let mut digits = Vec::new();
        number::push(&mut digits, value);
        if request.value {
            self.out.extend_from_slice(b"VA ");
            number::push(&mut self.out, digits.len() as u64);
        } else {
            self.out.extend_from_slice(b"HD");
        }
        for flag in request.flags() {
            match flag[0] {
                b'c' => self.push_number(b'c', self.server.shown(shard.blocks.unique(item))),
                b't' => self.push_ttl(shard, item),
                b'T' => self.set_expiry(shard, item, request.expiry),
                b'N' if is_new => self.set_expiry(shard, item, request.vivify),
                b'O' => self.push_word(flag),
                b'k' => self.push_key(key, request.key.is_base64()),
                _ => {}
            }
        }
        if request.value {
            self.out.extend_from_slice(b"\r\n");
            self.out.extend_from_slice(&digits);
        }
    }

    #[inline(never)]
    fn meta_debug(&mut self, key: Key<'_>) {
        let mut scratch: Scratch = [0; _];
        let key = key.decode(&mut scratch);
        let place = self.server.store.place(key);
        let mut shard = self.server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let found = shard.find(place.hash, key, self.moment);
        shard.counters.cmd_meta += 1;
        let Some(item) = found else { return self.say("EN", false) };
        let blocks = &shard.blocks;
        self.out.extend_from_slice(b"ME ");
        if blocks.is_marked(item, BASE64) {
            base64::push(&mut self.out, key);
        } else {
            self.out.extend_from_slice(key);
        }
        let expiry = match blocks.expiry(item) {
            0 => -1,
            expiry => i64::from(expiry) - i64::from(self.moment.now),
        };
        let idle = self.moment.now.saturating_sub(blocks.used_at(item));
        let fetched = if blocks.is_marked(item, FETCHED) { "yes" } else { "no" };
        let (bytes, class) = (shard.size(item), shard.class_of(item));
        let unique = self.server.shown(blocks.unique(item));
        let text = format!(" exp={expiry} la={idle} cas={unique} fetch={fetched} cls={class} size={bytes}\r\n");
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// An item with the initial value. When it expires is set as the flags are gone through.
fn vivify(shard: &mut Shard, hash: u32, key: &[u8], initial: u64, fresh: &Fresh, moment: Moment) -> Calculated {
    let mut text = Vec::new();
    number::push(&mut text, initial);
    let Some(draft) = shard.draft(key, &text, text.len(), moment) else { return Calculated::OutOfMemory };
    let terms = Terms::new(key, 0, 0, fresh, moment);
    let item = shard.publish(draft, None, hash, &terms, text.len() as u32);
    Calculated::Value { value: initial, item }
}
