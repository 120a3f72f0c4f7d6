//! Storing values as their verbs say.

use super::blocks::Number;
use super::draft::Draft;
use super::item::{BASE64, Cursor, STALE, WON};
use super::shard::Shard;
use super::{Content, Moment, Outcome, Terms};
use sinew_memcached_protocol::Verb;

impl Shard {
    /// Stores a value as the verb says.
    pub fn store(&mut self, verb: Verb, hash: u32, terms: &mut Terms<'_>, content: Content<'_>) -> Outcome {
        let moment = terms.moment;
        self.class_for(terms.key.len(), terms.flags, content.length()).counters.cmd_set += 1;
        let old = self.find(hash, terms.key, moment);
        let refused = match (verb, old) {
            (Verb::Add, Some(old)) => {
                self.spare(old);
                Some(Outcome::NotStored)
            }
            (Verb::Replace | Verb::Append | Verb::Prepend, None) => Some(Outcome::NotStored),
            (Verb::Cas, None) => {
                self.counters.cas_misses += 1;
                Some(Outcome::NotFound)
            }
            (Verb::Cas, Some(old)) => self.compare(old, terms),
            (Verb::Append | Verb::Prepend, Some(old)) => {
                (terms.unique != 0 && self.compared(old) != terms.unique).then_some(Outcome::Exists)
            }
            _ => None,
        };
        if let Some(refused) = refused {
            if let Content::Drafted(draft, _) = content {
                self.discard(draft);
            }
            return refused;
        }
        if let (Verb::Append | Verb::Prepend, Some(old)) = (verb, old) {
            return self.concatenate(verb, hash, old, terms, content);
        }
        // Making room for the new item may evict the item that it replaces.
        let (draft, length) = match content {
            Content::Drafted(draft, length) => (draft, length),
            Content::Whole(value) => match self.draft(terms.key, value, value.len(), moment) {
                Some(draft) => (draft, value.len() as u32),
                None => return self.fail(verb, hash, terms),
            },
        };
        let old = old.and_then(|_| self.index.find(&self.blocks, hash, terms.key));
        let item = self.publish(draft, old, hash, terms, length);
        if terms.keeps_stale {
            self.mark(item, STALE | if terms.keeps_won { WON } else { 0 }, 0);
        }
        Outcome::Stored { unique: self.blocks.unique(item) }
    }

    /// Compares unique numbers. Returns an outcome if the value must not be stored.
    fn compare(&mut self, old: Number, terms: &mut Terms<'_>) -> Option<Outcome> {
        let unique = self.compared(old);
        if unique == terms.unique && self.has_unique {
            self.class(old).counters.cas_hits += 1;
            None
        } else if terms.accepts_stale && terms.unique < unique {
            terms.keeps_stale = true;
            terms.keeps_won = self.blocks.is_marked(old, WON);
            terms.expiry = self.blocks.expiry(old);
            None
        } else {
            self.class(old).counters.cas_badval += 1;
            Some(Outcome::Exists)
        }
    }

    /// Fails for lack of memory. `set` removes the item that it cannot replace: it is outdated.
    #[cold]
    fn fail(&mut self, verb: Verb, hash: u32, terms: &Terms<'_>) -> Outcome {
        self.counters.store_no_memory += 1;
        self.class_for(terms.key.len(), terms.flags, 0).counters.out_of_memory += 1;
        if verb == Verb::Set
            && let Some(old) = self.index.find(&self.blocks, hash, terms.key)
        {
            self.remove(old);
        }
        Outcome::OutOfMemory
    }

    /// Stores a new item made of an old value and the value put before or after it.
    fn concatenate(
        &mut self,
        verb: Verb,
        hash: u32,
        old: Number,
        terms: &mut Terms<'_>,
        content: Content<'_>,
    ) -> Outcome {
        let added = content.length();
        let length = self.blocks.length(old) as usize;
        terms.flags = self.blocks.flags(old);
        terms.expiry = self.blocks.expiry(old);
        terms.base64 = self.blocks.is_marked(old, BASE64);
        // The old item is pinned, so that making room does not free it.
        let is_pinned = self.pin(old);
        let fits = self.family.classes.size(terms.key.len(), terms.flags, length + added) <= self.largest;
        let draft = if is_pinned && fits { self.concatenated(verb, old, terms, &content) } else { None };
        let stored = draft.map(|draft| {
            let linked = self.index.find(&self.blocks, hash, terms.key);
            self.publish(draft, linked, hash, terms, (length + added) as u32)
        });
        if is_pinned {
            self.unpin(old);
        }
        if let Content::Drafted(tail, _) = content {
            self.discard(tail);
        }
        match stored {
            Some(item) => Outcome::Stored { unique: self.blocks.unique(item) },
            None => Outcome::NotStored,
        }
    }

    /// Returns a draft of an old value and the value put before or after it.
    fn concatenated(&mut self, verb: Verb, old: Number, terms: &Terms<'_>, content: &Content<'_>) -> Option<Draft> {
        let (moment, added) = (terms.moment, content.length());
        let length = self.blocks.length(old) as usize;
        let mut draft = self.draft(terms.key, b"", length + added, moment)?;
        let old_value = (self.blocks.value(old), length);
        let new_value = match content {
            Content::Whole(_) => None,
            Content::Drafted(tail, _) => Some((self.blocks.behind_key(tail.first, terms.key.len()), added)),
        };
        let mut is_done = verb == Verb::Prepend || self.extend_from(&mut draft, old_value, moment);
        is_done &= match (content, new_value) {
            (Content::Whole(value), _) => self.extend(&mut draft, value, moment),
            (_, Some(value)) => self.extend_from(&mut draft, value, moment),
            _ => true,
        };
        is_done &= verb == Verb::Append || self.extend_from(&mut draft, old_value, moment);
        if is_done {
            return Some(draft);
        }
        self.discard(draft);
        None
    }

    /// Adds bytes of another chain to a draft. Returns `false` if there is no memory.
    fn extend_from(&mut self, draft: &mut Draft, (mut from, mut left): (Cursor, usize), moment: Moment) -> bool {
        let mut piece = [0; 1024];
        while left > 0 {
            let length = left.min(piece.len());
            self.blocks.pieces(&mut from, length, |part, at| piece[at..at + part.len()].copy_from_slice(part));
            if !self.extend(draft, &piece[..length], moment) {
                return false;
            }
            left -= length;
        }
        true
    }
}
