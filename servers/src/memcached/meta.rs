//! The meta commands of the text protocol: requests and their answers.

use super::arithmetic::{Calculated, Calculation, NOT_NUMERIC, Vivify};
use super::session::{Dialect, Kept, Lookup, Session};
use super::store::{BASE64, Content, FETCHED, Number, Outcome, STALE, Shard, Terms, WON};
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
        let mut found = self.look_up(key);
        let is_new = found.item.is_none() && request.vivify.is_some() && self.vivify_empty(&mut found, key);
        let touches = found.item.is_some() && request.expiry.is_some();
        found.shard.count_get(found.item, touches);
        let Some(item) = found.item else {
            drop(found);
            if !request.quiet {
                self.out.extend_from_slice(b"EN");
                self.push_echo(request, key);
                self.out.extend_from_slice(b"\r\n");
            }
            return Ok(());
        };
        if self.held.try_reserve(1).is_ok() {
            self.held.push(found.shard.blocks.unique(item));
        }
        let length = found.shard.blocks.length(item);
        if request.value {
            self.out.extend_from_slice(b"VA ");
            number::push(&mut self.out, length.into());
        } else {
            self.out.extend_from_slice(b"HD");
        }
        let has_won = self.push_item(&mut found, request, key, item, is_new);
        self.push_win(&mut found.shard, item, has_won);
        self.out.extend_from_slice(b"\r\n");
        if !request.unnoticed {
            found.shard.notice(item, self.moment);
        }
        if !request.value {
            return Ok(());
        }
        self.push_value(found, item, length)?;
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Creates an empty item for a key that is not there. The flags set its expiry later. Returns
    /// `false` if there is no memory.
    #[cold]
    fn vivify_empty(&self, found: &mut Lookup<'_>, key: &[u8]) -> bool {
        let terms = Terms::new(key, 0, 0, &self.server.store.fresh, self.moment);
        let (shard, hash) = (&mut *found.shard, found.place.hash);
        let draft = shard.draft(key, b"", 0, self.moment);
        found.item = draft.map(|draft| shard.publish(draft, None, hash, &terms, 0));
        found.item.is_some()
    }

    /// Does what each flag asks for, in the order of the flags, and appends its answer. Returns
    /// whether the client has won the right to renew the item.
    fn push_item(
        &mut self,
        found: &mut Lookup<'_>,
        request: &Request<'_>,
        key: &[u8],
        item: Number,
        is_new: bool,
    ) -> bool {
        let mut has_won = false;
        for flag in request.flags() {
            let shard = &mut *found.shard;
            match flag[0] {
                b'T' => self.set_expiry(found, item, request.expiry),
                b'N' if is_new => {
                    self.set_expiry(found, item, request.vivify);
                    has_won = true;
                }
                b'R' => {
                    let limit = self.expiry(request.recache.unwrap_or(0).into());
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

    fn set_expiry(&self, found: &mut Lookup<'_>, item: Number, expiry: Option<i32>) {
        found.set_expiry(item, self.expiry(expiry.unwrap_or(0).into()));
    }

    /// Appends whether the item is outdated, and whether this client or another renews it.
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
            // If this request has set it to the past, the difference wraps around, as in memcached.
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

    /// Appends the flags that are sent back in every answer.
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
        let expiry = self.expiry(request.expiry.unwrap_or(0).into());
        let mut terms = Terms::new(key, request.client_flags, expiry, &server.store.fresh, self.moment);
        terms.unique = request.unique.unwrap_or(0);
        terms.accepts_stale = request.stale && verb == Verb::Cas;
        terms.base64 = request.key.is_base64();
        let (code, unique) = match self.store_item(Dialect::Meta, verb, &mut terms, content) {
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
        let code = match self.find_to_delete(Dialect::Meta, key, request.unique) {
            Err(Kept::NotFound) => "NF",
            Err(Kept::Exists) => "EX",
            Ok((mut found, item)) if request.stale => {
                if request.expiry.is_some() {
                    self.set_expiry(&mut found, item, request.expiry);
                }
                found.shard.mark(item, STALE, WON);
                found.shard.blocks.set_unique(item, self.server.store.fresh.next());
                "HD"
            }
            Ok((found, item)) => {
                found.delete(item);
                "HD"
            }
        };
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
        // The flags set the expiry of a new item.
        let vivify = request.vivify.map(|_| Vivify { initial: request.initial, expiry: 0 });
        let unique = request.unique.unwrap_or(0);
        let (mut found, calculated) = self.calculate(&Calculation { key, add, delta: request.delta, unique, vivify });
        let start = self.out.len();
        let mut is_silent = false;
        match calculated {
            Calculated::Value { value, item, is_new } => {
                self.push_calculated(&mut found, request, key, item, value, is_new);
                is_silent = request.quiet && !is_new;
            }
            Calculated::NotNumeric => return self.say(NOT_NUMERIC, false),
            Calculated::OutOfMemory => return self.say("SERVER_ERROR out of memory", false),
            Calculated::NotFound => self.out.extend_from_slice(b"NF"),
            Calculated::Exists => self.out.extend_from_slice(b"EX"),
        }
        drop(found);
        if !matches!(calculated, Calculated::Value { .. }) {
            self.push_echo(request, key);
        }
        self.out.extend_from_slice(b"\r\n");
        if request.has_long_opaque() {
            self.out.truncate(start);
            self.say(request.refusal_of_opaque().text, false);
        } else if is_silent {
            self.out.truncate(start);
        }
    }

    fn push_calculated(
        &mut self,
        found: &mut Lookup<'_>,
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
                b'c' => self.push_number(b'c', self.server.shown(found.shard.blocks.unique(item))),
                b't' => self.push_ttl(&found.shard, item),
                b'T' => self.set_expiry(found, item, request.expiry),
                b'N' if is_new => self.set_expiry(found, item, request.vivify),
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
        let Lookup { mut shard, item, .. } = self.look_up(key);
        shard.counters.cmd_meta += 1;
        let Some(item) = item else { return self.say("EN", false) };
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
