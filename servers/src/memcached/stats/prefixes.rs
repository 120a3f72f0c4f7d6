//! `stats detail`: requests counted by the prefix of their keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of prefixes that are counted. Later prefixes are not. memcached has no limit.
const MOST_PREFIXES: usize = 100_000;

/// Counters by prefix.
pub struct Prefixes {
    is_on: AtomicBool,
    delimiter: u8,
    /// No session waits while it holds this lock.
    counts: Mutex<HashMap<Vec<u8>, Counts>>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

impl Prefixes {
    /// Returns counters for prefixes that end before `delimiter`.
    pub fn new(delimiter: u8, is_on: bool) -> Prefixes {
        Prefixes { is_on: AtomicBool::new(is_on), delimiter, counts: Mutex::default() }
    }

    /// Returns the character that ends a prefix.
    pub fn delimiter(&self) -> char {
        self.delimiter.into()
    }

    /// Returns whether requests are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Starts or stops counting.
    pub fn enable(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn change(&self, key: &[u8], change: impl FnOnce(&mut Counts)) {
        let Some(length) = key.iter().position(|byte| *byte == self.delimiter) else { return };
        let mut counts = self.counts();
        if let Some(counted) = counts.get_mut(&key[..length]) {
            change(counted);
        } else if counts.len() < MOST_PREFIXES && counts.try_reserve(1).is_ok() {
            change(counts.entry(key[..length].to_vec()).or_default());
        }
    }

    /// Counts a key that is fetched.
    #[inline]
    pub fn note_get(&self, key: &[u8], is_hit: bool) {
        if self.is_on() {
            self.change(key, |counts| {
                counts.gets += 1;
                counts.hits += u64::from(is_hit);
            });
        }
    }

    /// Counts a key that is to be stored.
    #[inline]
    pub fn note_set(&self, key: &[u8]) {
        if self.is_on() {
            self.change(key, |counts| counts.sets += 1);
        }
    }

    /// Counts a key that is to be deleted.
    #[inline]
    pub fn note_delete(&self, key: &[u8]) {
        if self.is_on() {
            self.change(key, |counts| counts.deletes += 1);
        }
    }

    /// Removes all counters.
    pub fn reset(&self) {
        *self.counts() = HashMap::new();
    }

    /// Appends all counters, sorted by prefix.
    pub fn dump(&self, out: &mut Vec<u8>) {
        let mut counts: Vec<(Vec<u8>, Counts)> =
            self.counts().iter().map(|(prefix, counts)| (prefix.clone(), *counts)).collect();
        counts.sort_by(|one, other| one.0.cmp(&other.0));
        for (prefix, Counts { gets, hits, sets, deletes }) in counts {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(&prefix);
            out.extend_from_slice(format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n").as_bytes());
        }
        out.extend_from_slice(b"END\r\n");
    }
}
