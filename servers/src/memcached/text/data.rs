//! Text requests that bring a value, meta commands among them.

use super::{Scratch, text_of};
use crate::memcached::session::{Dialect, Next, SHORT_VALUE, Session};
use crate::memcached::store::{Content, Draft, Outcome, Terms};
use crate::memcached::stream::Stream;
use sinew_memcached_protocol::text::{self, Command, Store};
use sinew_memcached_protocol::{Line, Refusal, Verb, line, meta};

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";
const NO_MEMORY: Refusal = Refusal::new("SERVER_ERROR out of memory storing object");

/// The description of a value in the request that brings it.
struct Head<'a> {
    dialect: Dialect,
    key: &'a [u8],
    flags: u32,
    length: u32,
    /// With `Set`, the old item is removed if the value cannot be stored.
    verb: Verb,
    noreply: bool,
}

/// The next step of a session after the first line of a request that brings a value.
pub(super) enum Data {
    /// The request is answered. This number of bytes of data was taken.
    Taken(usize),
    /// The data has not arrived yet.
    Missing,
    /// This number of bytes of data was taken, and this is to be done.
    Next(usize, Next),
}

impl<'a> Head<'a> {
    /// Returns the head of a plain request. Its key needs no decoding.
    fn plain(command: &Command<'a>) -> Option<Head<'a>> {
        match *command {
            Command::Store(Store { verb, key, flags, length, noreply, .. }) => {
                Some(Head { dialect: Dialect::Text, key, flags, length, verb, noreply })
            }
            _ => None,
        }
    }

    fn of(command: &Command<'a>, scratch: &'a mut Scratch) -> Option<Head<'a>> {
        match *command {
            Command::Store(_) => Head::plain(command),
            Command::Meta(meta::Command::Set { request, length, .. }) => {
                let (dialect, key) = (Dialect::Meta, request.key.decode(scratch));
                Some(Head { dialect, key, flags: request.client_flags, length, verb: Verb::Set, noreply: false })
            }
            _ => None,
        }
    }
}

impl<S: Stream> Session<'_, S> {
    /// Stores a value if it has arrived.
    #[inline(never)]
    pub(super) fn with_data(&mut self, command: &Command<'_>, line: &[u8], data: &[u8]) -> Data {
        if let Some(head) = Head::plain(command) {
            return self.with_head(&head, command, line, data);
        }
        self.with_meta_data(command, line, data)
    }

    #[inline(never)]
    fn with_meta_data(&mut self, command: &Command<'_>, line: &[u8], data: &[u8]) -> Data {
        let mut scratch = [0; _];
        match Head::of(command, &mut scratch) {
            Some(head) => self.with_head(&head, command, line, data),
            None => Data::Taken(0),
        }
    }

    fn with_head(&mut self, head: &Head<'_>, command: &Command<'_>, line: &[u8], data: &[u8]) -> Data {
        let whole = head.length as usize + 2;
        if self.is_too_large(head) {
            self.refuse(head);
            let refusal = Refusal::new("SERVER_ERROR object too large for cache");
            let said = if head.noreply { Vec::new() } else { text_of(refusal) };
            return Data::Next(0, Next::Swallow(whole as u64, said));
        }
        if data.len() >= whole {
            let (value, end) = data[..whole].split_at(whole - 2);
            self.store(command, (end == b"\r\n").then_some(Content::Whole(value)));
            return Data::Taken(whole);
        }
        if head.length <= SHORT_VALUE {
            return Data::Missing;
        }
        let here = data.len().min(head.length as usize);
        let next = match self.begin_upload(line, head.key, &data[..here], head.length) {
            Some(upload) => Next::Receive(upload),
            None => {
                self.refuse(head);
                let said = if head.noreply { Vec::new() } else { text_of(NO_MEMORY) };
                Next::Swallow((whole - here) as u64, said)
            }
        };
        Data::Next(here, next)
    }

    fn is_too_large(&self, head: &Head<'_>) -> bool {
        self.server.store.size(head.key.len(), head.flags, head.length as usize) > self.server.largest
    }

    #[cold]
    fn refuse(&mut self, head: &Head<'_>) {
        self.refuse_item(head.dialect, head.verb, head.key, head.flags, self.is_too_large(head));
    }

    /// Stores a large value that has arrived, or refuses it if there is no draft: then its end was
    /// wrong.
    pub(in crate::memcached) fn text_uploaded(&mut self, head: &[u8], draft: Option<Draft>, length: u32) {
        if let Line::Whole { line, .. } = line(head) {
            self.store(&text::parse(line), draft.map(|draft| Content::Drafted(draft, length)));
        }
    }

    /// Refuses a large value that found no memory while it arrived.
    pub(in crate::memcached) fn text_upload_failed(&mut self, head: &[u8], is_noticed_late: bool) {
        let mut scratch = [0; _];
        let Line::Whole { line, .. } = line(head) else { return };
        let command = text::parse(line);
        let Some(head) = Head::of(&command, &mut scratch) else { return };
        if is_noticed_late {
            let is_quiet = matches!(command, Command::Meta(meta::Command::Set { request, .. }) if request.quiet);
            return self.say("SERVER_ERROR Out of memory during read", head.noreply || is_quiet);
        }
        self.refuse(&head);
        self.say(NO_MEMORY.text, head.noreply);
    }

    /// Stores a value that has arrived. Refuses the request if there is no content: then the end
    /// of the value was wrong.
    #[inline]
    fn store(&mut self, command: &Command<'_>, content: Option<Content<'_>>) {
        match (command, content) {
            (Command::Store(store), Some(content)) => self.store_plain(store, content),
            (Command::Meta(meta::Command::Set { request, verb, .. }), Some(content)) => {
                self.meta_set(request, *verb, content);
            }
            (command, None) => self.refuse_chunk(command),
            _ => {}
        }
    }

    #[cold]
    fn refuse_chunk(&mut self, command: &Command<'_>) {
        let mut scratch = [0; _];
        let Some(head) = Head::of(command, &mut scratch) else { return };
        self.count_bad_chunk(head.dialect, head.key, head.flags, head.length);
        self.say(BAD_CHUNK, head.noreply);
    }

    #[inline]
    fn store_plain(&mut self, store: &Store<'_>, content: Content<'_>) {
        let expiry = self.expiry(store.expiry.into());
        let mut terms = Terms::new(store.key, store.flags, expiry, &self.server.store.fresh, self.moment);
        terms.unique = store.unique;
        let text = match self.store_item(Dialect::Text, store.verb, &mut terms, content) {
            Outcome::Stored { .. } => "STORED",
            Outcome::NotStored => "NOT_STORED",
            Outcome::Exists => "EXISTS",
            Outcome::NotFound => "NOT_FOUND",
            Outcome::OutOfMemory => NO_MEMORY.text,
        };
        self.say(text, store.noreply);
    }
}
