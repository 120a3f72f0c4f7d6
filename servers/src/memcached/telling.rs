//! Sessions that tell watchers what they do, and sessions that are watchers.

use super::session::Session;
use super::store::{Outcome, Place, Shard, Terms};
use super::stream::Stream;
use super::traffic::State;
use super::watch::{FETCHERS, MUTATIONS, Stored, Told, Topics, Watcher};
use crate::lobby::is_silence;
use sinew::task::AbortHandle;
use sinew_memcached_protocol::Verb;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Instant;

impl<S: Stream> Session<'_, S> {
    /// Tells the watchers that a key is looked up.
    #[inline]
    pub(super) fn tell_fetch(&self, shard: &Shard, place: Place, key: &[u8]) {
        if self.server.watchers.wants(FETCHERS) {
            let (status, class, size) = shard.status(place.hash, key, self.moment);
            self.server.watchers.say_fetched(key, status, class, self.entry.number, size);
        }
    }

    /// Tells the watchers the outcome of a store. Without an outcome the value was too large.
    #[inline]
    pub(super) fn tell_store(&self, verb: Verb, terms: &Terms<'_>, size: usize, outcome: Option<Outcome>) {
        if self.server.watchers.wants(MUTATIONS) {
            self.tell_store_slow(verb, terms, size, outcome);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_store_slow(&self, verb: Verb, terms: &Terms<'_>, size: usize, outcome: Option<Outcome>) {
        let status = match outcome {
            None => "too_large",
            Some(Outcome::Stored { .. }) => "stored",
            Some(Outcome::NotStored) => "not_stored",
            Some(Outcome::Exists) => "exists",
            Some(Outcome::NotFound) => "not_found",
            Some(Outcome::OutOfMemory) => "no_memory",
        };
        let command = match verb {
            Verb::Set => "set",
            Verb::Add => "add",
            Verb::Replace => "replace",
            Verb::Append => "append",
            Verb::Prepend => "prepend",
            Verb::Cas => "cas",
        };
        let is_refused = matches!(outcome, None | Some(Outcome::OutOfMemory));
        self.server.watchers.say_stored(&Stored {
            key: terms.key,
            status,
            command,
            ttl: terms.expiry.saturating_sub(self.moment.now),
            class: if is_refused { 0 } else { self.server.store.class(terms.key.len(), terms.flags, size) },
            connection: self.entry.number,
            size: if is_refused { 0 } else { size as u32 },
        });
    }

    /// Sends lines to the client, a watcher, until it leaves. Returns `true` if there are too many
    /// watchers already.
    #[inline(never)]
    pub(super) fn watch(&mut self, topics: Topics) -> io::Result<bool> {
        self.entry.set_state(State::Watches);
        let Some(watcher) = self.server.watchers.enter(topics) else {
            self.say("WATCHER_TOO_MANY log watcher limit reached", false);
            return Ok(true);
        };
        let outcome = self.tell(&watcher);
        self.server.watchers.leave(&watcher);
        outcome.map(|()| false)
    }

    fn tell(&mut self, watcher: &Arc<Watcher>) -> io::Result<()> {
        let mut ear = self.listen(watcher);
        loop {
            match watcher.wait() {
                Told::Lines(lines) => {
                    self.out = lines;
                    self.send()?;
                }
                Told::Heard => match self.stream.read_until(&mut [0; 64], Instant::now()) {
                    Ok(0) => return Ok(()),
                    Err(error) if !is_silence(&error) => return Err(error),
                    // The server ignores bytes that a watcher sends.
                    _ => ear = self.listen(watcher),
                },
                Told::Over => break,
            }
        }
        ear.abort();
        Ok(())
    }

    /// Starts a task that waits until the client sends something.
    fn listen(&self, watcher: &Arc<Watcher>) -> AbortHandle {
        let (stream, watcher) = (self.stream.clone(), Arc::clone(watcher));
        let heard = poll_fn(move |context| stream.poll_readable(context));
        let task = sinew::task::spawn(async move {
            heard.await;
            watcher.hear();
        });
        task.abort_handle()
    }
}
