//! The work of requests on items: to find, fetch, store, refuse and delete them.
//!
//! The text, meta and binary commands share these operations. Each operation tells the watchers
//! and counts what `stats` reports. memcached does not count the same in all protocols, and
//! clients' tools expect its numbers:
//!
//! | | text | meta | binary |
//! | --- | --- | --- | --- |
//! | `stats detail` counts keys by prefix | all but `touch` | no | yes |
//! | a touch of a key that is not there counts as | touch | get | touch |
//! | a delete with another unique number | | counts as a miss | is not counted |
//! | a value that is too large, or finds no memory | is counted | is counted | is not counted |
//!
//! A lookup that finds an expired or flushed item removes it, and the shard counts that.

use super::Session;
use crate::memcached::Server;
use crate::memcached::store::{Content, Number, Outcome, Place, Shard, Terms};
use crate::memcached::stream::Stream;
use sinew::sync::MutexGuard;
use sinew_memcached_protocol::Verb;

/// The kind of request, as far as counting depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The text protocol without its meta commands.
    Text,
    /// The meta commands of the text protocol.
    Meta,
    /// The binary protocol.
    Binary,
}

/// The parts of an item that a request fetches. Touching sets the expiry, in the client's number.
#[derive(Clone, Copy, Debug)]
pub enum Fetch {
    /// The value.
    Get,
    /// Nothing: the item is only touched.
    Touch(i64),
    /// The value, and the item is touched.
    GetAndTouch(i64),
}

/// Why an item is not deleted.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// There is no item.
    NotFound,
    /// The item has another unique number.
    Exists,
}

/// A key that has been looked up. Its shard stays locked as long as this value lives.
pub struct Lookup<'a> {
    server: &'a Server,
    /// The key's place.
    pub place: Place,
    /// The key's shard, locked.
    pub shard: MutexGuard<'a, Shard>,
    /// The item, unless there is none, or it has expired or been flushed.
    pub item: Option<Number>,
}

impl Lookup<'_> {
    /// Sets when an item expires, and has the sweeper look after it.
    #[inline(always)]
    pub fn set_expiry(&mut self, item: Number, expiry: u32) {
        self.shard.set_expiry(item, expiry);
        if expiry != 0 {
            self.server.sweeper.call();
        }
    }

    /// Removes an item because a client asks for it.
    pub fn delete(mut self, item: Number) {
        self.shard.class(item).counters.delete_hits += 1;
        self.shard.remove(item);
    }
}

impl<'a, S: Stream> Session<'a, S> {
    /// Looks up a key and tells the watchers.
    ///
    /// This, `fetch`, `store_item` and `push_value` are always inlined. With calls, a get of a small
    /// value takes 7 % more instructions as text, and 10 % more in the binary protocol.
    #[inline(always)]
    pub(in crate::memcached) fn look_up(&self, key: &[u8]) -> Lookup<'a> {
        let server = self.server;
        let place = server.store.place(key);
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, key);
        let item = shard.find(place.hash, key, self.moment);
        Lookup { server, place, shard, item }
    }

    /// Returns when an item expires that a client gives this expiry.
    #[inline]
    pub(in crate::memcached) fn expiry(&self, said: i64) -> u32 {
        self.server.clock.expiry(said, self.moment.now)
    }

    /// Looks up a key for a request that gets the item, or touches it. Eviction notices the use.
    #[inline(always)]
    pub(in crate::memcached) fn fetch(&self, dialect: Dialect, key: &[u8], fetch: Fetch) -> Lookup<'a> {
        let mut found = self.look_up(key);
        let touch = match fetch {
            Fetch::Get => None,
            Fetch::Touch(expiry) | Fetch::GetAndTouch(expiry) => Some(expiry),
        };
        found.shard.count_get(found.item, touch.is_some());
        if dialect == Dialect::Binary || !matches!(fetch, Fetch::Touch(_)) {
            self.server.prefixes.note_get(key, found.item.is_some());
        }
        if let Some(item) = found.item {
            found.shard.notice(item, self.moment);
            if let Some(expiry) = touch {
                found.set_expiry(item, self.expiry(expiry));
            }
        }
        found
    }

    /// Stores a value as the verb says.
    #[inline(always)]
    pub(in crate::memcached) fn store_item(
        &self,
        dialect: Dialect,
        verb: Verb,
        terms: &mut Terms<'_>,
        content: Content<'_>,
    ) -> Outcome {
        let server = self.server;
        let place = server.store.place(terms.key);
        let (length, expiry) = (content.length(), terms.expiry);
        if dialect != Dialect::Meta {
            server.prefixes.note_set(terms.key);
        }
        let mut shard = server.store.lock(place.shard);
        self.tell_fetch(&shard, place, terms.key);
        let outcome = shard.store(verb, place.hash, terms, content);
        drop(shard);
        self.tell_store(verb, terms, length, Some(outcome));
        if expiry != 0 {
            server.sweeper.call();
        }
        outcome
    }

    /// Refuses a value that is too large, or that finds no memory. `set` removes the item that it
    /// cannot replace, because that item is outdated.
    #[cold]
    pub(in crate::memcached) fn refuse_item(
        &self,
        dialect: Dialect,
        verb: Verb,
        key: &[u8],
        flags: u32,
        is_too_large: bool,
    ) {
        let server = self.server;
        if dialect != Dialect::Meta {
            server.prefixes.note_set(key);
        }
        let terms = Terms::new(key, flags, 0, &server.store.fresh, self.moment);
        self.tell_store(verb, &terms, 0, (!is_too_large).then_some(Outcome::OutOfMemory));
        if dialect != Dialect::Binary {
            let mut shard = server.store.lock(server.store.place(key).shard);
            let counters = &mut shard.counters;
            *(if is_too_large { &mut counters.store_too_large } else { &mut counters.store_no_memory }) += 1;
        }
        if verb == Verb::Set {
            let mut outdated = self.look_up(key);
            if let Some(item) = outdated.item {
                outdated.shard.remove(item);
            }
        }
    }

    /// Counts a text request whose value does not end with a line end. It is not stored.
    #[cold]
    pub(in crate::memcached) fn count_bad_chunk(&self, dialect: Dialect, key: &[u8], flags: u32, length: u32) {
        let server = self.server;
        if dialect != Dialect::Meta {
            server.prefixes.note_set(key);
        }
        let mut shard = server.store.lock(server.store.place(key).shard);
        shard.class_for(key.len(), flags, length as usize).counters.cmd_set += 1;
    }

    /// Looks up an item that a client wants to delete, if it has that unique number.
    pub(in crate::memcached) fn find_to_delete(
        &self,
        dialect: Dialect,
        key: &[u8],
        unique: Option<u64>,
    ) -> Result<(Lookup<'a>, Number), Kept> {
        if dialect != Dialect::Meta {
            self.server.prefixes.note_delete(key);
        }
        let mut found = self.look_up(key);
        let Some(item) = found.item else {
            found.shard.counters.delete_misses += 1;
            return Err(Kept::NotFound);
        };
        if unique.is_some_and(|unique| unique != found.shard.compared(item)) {
            found.shard.counters.delete_misses += u64::from(dialect == Dialect::Meta);
            return Err(Kept::Exists);
        }
        Ok((found, item))
    }
}
