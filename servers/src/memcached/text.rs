//! The text protocol, spoken.

use super::VERSION;
use super::session::{Next, Pinned, SHORT_VALUE, Session, Step};
use super::store::{Content, Draft, Outcome, Terms};
use super::stream::Stream;
use super::traffic::Reason;
use sinew_memcached_protocol::text::{self, Command, Get, Store};
use sinew_memcached_protocol::{LONGEST_LINE, Line, Refusal, Verb, line, meta, number};
use std::io;

/// What a request that brings data says of it.
struct Head<'a> {
    key: &'a [u8],
    flags: u32,
    length: u32,
    /// What is there goes if it is `set` and cannot be stored.
    verb: Verb,
    noreply: bool,
    /// Whether it is counted by its prefix: meta commands are not.
    is_counted: bool,
}

/// More than the longest key, as base64 is decoded.
pub type Scratch = [u8; sinew_memcached_protocol::LONGEST_KEY + 2];

impl<'a> Head<'a> {
    /// Of a request whose key is at hand.
    fn plain(command: &Command<'a>) -> Option<Head<'a>> {
        match *command {
            Command::Store(Store { verb, key, flags, length, noreply, .. }) => {
                Some(Head { key, flags, length, verb, noreply, is_counted: true })
            }
            _ => None,
        }
    }

    fn of(command: &Command<'a>, scratch: &'a mut Scratch) -> Option<Head<'a>> {
        match *command {
            Command::Store(_) => Head::plain(command),
            Command::Meta(meta::Command::Set { request, length, .. }) => {
                let key = request.key.decode(scratch);
                Some(Head {
                    key,
                    flags: request.client_flags,
                    length,
                    verb: Verb::Set,
                    noreply: false,
                    is_counted: false,
                })
            }
            _ => None,
        }
    }
}

impl<S: Stream> Session<'_, S> {
    /// Answers all requests that are complete. Not inlined, so that a session that waits has
    /// no frame for it.
    #[inline(never)]
    pub(super) fn text(&mut self, bytes: &[u8]) -> io::Result<Step> {
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
                    match self.with_data(&command, &rest[..length], &rest[length..])? {
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

    /// memcached sends all answers now.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.settled = self.out.len();
        self.held.clear();
    }

    /// Says something.
    #[inline]
    pub(super) fn say(&mut self, text: &str, noreply: bool) {
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
        let server = self.server;
        let place = server.store.place(key);
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let found = shard.find(place.hash, key, self.moment);
        shard.count_get(found, get.touch.is_some());
        server.prefixes.note_get(key, found.is_some());
        let Some(item) = found else { return Ok(()) };
        shard.notice(item, self.moment);
        if let Some(expiry) = get.touch {
            shard.set_expiry(item, server.clock.expiry(expiry.into(), self.moment.now));
        }
        let (length, blocks) = (shard.blocks.length(item), &shard.blocks);
        let out = &mut self.out;
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.push(b' ');
        number::push(out, blocks.flags(item).into());
        out.push(b' ');
        number::push(out, length.into());
        if get.unique {
            out.push(b' ');
            number::push(out, server.shown(blocks.unique(item)));
        }
        out.extend_from_slice(b"\r\n");
        let mut cursor = blocks.value(item);
        if length <= SHORT_VALUE && self.reserve(length).is_ok() {
            shard.blocks.copy_out(&mut cursor, length as usize, &mut self.out);
            drop(shard);
        } else if shard.pin(item) {
            drop(shard);
            self.send_pinned(&Pinned { server, place, item }, cursor, length)?;
        } else {
            // Sixty thousand clients are reading it: this one waits no longer than it takes.
            self.reserve(length)?;
            shard.blocks.copy_out(&mut cursor, length as usize, &mut self.out);
        }
        if get.touch.is_some_and(|expiry| expiry != 0) {
            server.sweeper.call();
        }
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Stores, if the data is here.
    #[inline(never)]
    fn with_data(&mut self, command: &Command<'_>, line: &[u8], data: &[u8]) -> io::Result<Data> {
        if let Some(head) = Head::plain(command) {
            return self.with_head(&head, command, line, data);
        }
        self.with_meta_data(command, line, data)
    }

    #[inline(never)]
    fn with_meta_data(&mut self, command: &Command<'_>, line: &[u8], data: &[u8]) -> io::Result<Data> {
        let mut scratch = [0; _];
        match Head::of(command, &mut scratch) {
            Some(head) => self.with_head(&head, command, line, data),
            None => Ok(Data::Taken(0)),
        }
    }

    fn with_head(&mut self, head: &Head<'_>, command: &Command<'_>, line: &[u8], data: &[u8]) -> io::Result<Data> {
        let whole = head.length as usize + 2;
        if self.is_too_large(head) {
            self.forget(head);
            let refusal = Refusal::new("SERVER_ERROR object too large for cache");
            let said = if head.noreply { Vec::new() } else { text_of(refusal) };
            return Ok(Data::Next(0, Next::Swallow(whole as u64, said)));
        }
        if data.len() >= whole {
            let (value, end) = data[..whole].split_at(whole - 2);
            self.store(command, (end == b"\r\n").then_some(Content::Whole(value)));
            return Ok(Data::Taken(whole));
        }
        if head.length <= SHORT_VALUE {
            return Ok(Data::Missing);
        }
        let here = data.len().min(head.length as usize);
        let next = match self.begin_upload(line, head.key, &data[..here], head.length) {
            Some(upload) => Next::Receive(upload),
            None => {
                self.forget(head);
                let said = if head.noreply { Vec::new() } else { text_of(NO_MEMORY) };
                Next::Swallow((whole - here) as u64, said)
            }
        };
        Ok(Data::Next(here, next))
    }

    fn is_too_large(&self, head: &Head<'_>) -> bool {
        self.server.store.size(head.key.len(), head.flags, head.length as usize) > self.server.largest
    }

    /// What could not be replaced is outdated.
    #[cold]
    fn forget(&mut self, head: &Head<'_>) {
        if head.is_counted {
            self.server.prefixes.note_set(head.key);
        }
        let is_too_large = self.is_too_large(head);
        let terms = Terms::new(head.key, head.flags, 0, &self.server.store.fresh, self.moment);
        self.tell_store(head.verb, &terms, 0, (!is_too_large).then_some(Outcome::OutOfMemory));
        let place = self.server.store.place(head.key);
        let mut shard = self.server.store.lock(place.shard);
        if is_too_large {
            shard.counters.store_too_large += 1;
        } else {
            shard.counters.store_no_memory += 1;
        }
        if head.verb == Verb::Set
            && let Some(item) = shard.find(place.hash, head.key, self.moment)
        {
            shard.remove(item);
        }
    }

    /// A large value has come, or one that does not end as it has to.
    pub(super) fn text_uploaded(&mut self, head: &[u8], draft: Option<Draft>, length: u32) {
        if let Line::Whole { line, .. } = line(head) {
            self.store(&text::parse(line), draft.map(|draft| Content::Drafted(draft, length)));
        }
    }

    /// A large value has come for which there was no memory.
    pub(super) fn text_upload_failed(&mut self, head: &[u8], is_noticed_late: bool) {
        let mut scratch = [0; _];
        let Line::Whole { line, .. } = line(head) else { return };
        let command = text::parse(line);
        let Some(head) = Head::of(&command, &mut scratch) else { return };
        if is_noticed_late {
            let is_quiet = matches!(command, Command::Meta(meta::Command::Set { request, .. }) if request.quiet);
            return self.say("SERVER_ERROR Out of memory during read", head.noreply || is_quiet);
        }
        self.forget(&head);
        self.say(NO_MEMORY.text, head.noreply);
    }

    /// Stores what has come; nothing if it does not end as it has to.
    #[inline]
    fn store(&mut self, command: &Command<'_>, content: Option<Content<'_>>) {
        match (command, content) {
            (Command::Store(store), None) => {
                self.count_bad_chunk(store);
                self.say(BAD_CHUNK, store.noreply);
            }
            (Command::Store(store), Some(content)) => self.store_plain(store, content),
            (Command::Meta(meta::Command::Set { .. }), None) => self.say(BAD_CHUNK, false),
            (Command::Meta(meta::Command::Set { request, verb, .. }), Some(content)) => {
                self.meta_set(request, *verb, content);
            }
            _ => {}
        }
    }

    /// memcached counts what it refuses when it has come.
    #[cold]
    fn count_bad_chunk(&self, store: &Store<'_>) {
        let mut shard = self.server.store.lock(self.server.store.place(store.key).shard);
        shard.class_for(store.key.len(), store.flags, store.length as usize).counters.cmd_set += 1;
    }

    #[inline]
    fn store_plain(&mut self, store: &Store<'_>, content: Content<'_>) {
        let server = self.server;
        let place = server.store.place(store.key);
        let expiry = server.clock.expiry(store.expiry.into(), self.moment.now);
        let mut terms = Terms::new(store.key, store.flags, expiry, &server.store.fresh, self.moment);
        terms.unique = store.unique;
        let length = content.length();
        server.prefixes.note_set(store.key);
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, store.key);
        let outcome = shard.store(store.verb, place.hash, &mut terms, content);
        drop(shard);
        self.tell_store(store.verb, &terms, length, Some(outcome));
        if expiry != 0 {
            server.sweeper.call();
        }
        let text = match outcome {
            Outcome::Stored { .. } => "STORED",
            Outcome::NotStored => "NOT_STORED",
            Outcome::Exists => "EXISTS",
            Outcome::NotFound => "NOT_FOUND",
            Outcome::OutOfMemory => NO_MEMORY.text,
        };
        self.say(text, store.noreply);
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
        let place = self.server.store.place(key);
        self.server.prefixes.note_delete(key);
        let mut shard = self.server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let found = shard.find(place.hash, key, self.moment);
        match found {
            Some(item) => {
                shard.class(item).counters.delete_hits += 1;
                shard.remove(item);
            }
            None => shard.counters.delete_misses += 1,
        }
        drop(shard);
        self.say(if found.is_some() { "DELETED" } else { "NOT_FOUND" }, noreply);
    }

    #[inline(never)]
    fn touch(&mut self, key: &[u8], expiry: i32, noreply: bool) {
        let place = self.server.store.place(key);
        let expiry = self.server.clock.expiry(expiry.into(), self.moment.now);
        let mut shard = self.server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let found = shard.find(place.hash, key, self.moment);
        shard.count_get(found, true);
        if let Some(item) = found {
            shard.notice(item, self.moment);
            shard.set_expiry(item, expiry);
        }
        drop(shard);
        if expiry != 0 {
            self.server.sweeper.call();
        }
        self.say(if found.is_some() { "TOUCHED" } else { "NOT_FOUND" }, noreply);
    }

    #[inline(never)]
    fn arithmetic(&mut self, key: &[u8], add: bool, delta: u64, noreply: bool) {
        use super::arithmetic::{Calculated, calculate};
        let place = self.server.store.place(key);
        let mut shard = self.server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let fresh = &self.server.store.fresh;
        let result = calculate(&mut shard, place.hash, key, add, delta, 0, &self.held, fresh, self.moment);
        drop(shard);
        match result {
            Calculated::Value { value, .. } if !noreply => {
                number::push(&mut self.out, value);
                self.out.extend_from_slice(b"\r\n");
            }
            Calculated::Value { .. } => {}
            Calculated::NotFound => self.say("NOT_FOUND", noreply),
            Calculated::NotNumeric => self.say(super::arithmetic::NOT_NUMERIC, noreply),
            Calculated::Exists => self.say("EXISTS", noreply),
            Calculated::OutOfMemory => self.say("SERVER_ERROR out of memory", noreply),
        }
    }
}

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";
const NO_MEMORY: Refusal = Refusal::new("SERVER_ERROR out of memory storing object");

/// What became of a request that brings data.
enum Data {
    /// It is done; so many bytes of data were taken.
    Taken(usize),
    /// The data has not come yet.
    Missing,
    /// So many bytes of data were taken, and this is to be done.
    Next(usize, Next),
}

fn text_of(refusal: Refusal) -> Vec<u8> {
    format!("{}\r\n", refusal.text).into_bytes()
}
