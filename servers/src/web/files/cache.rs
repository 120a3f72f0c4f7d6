//! A bounded number of entries, in a bounded amount of memory.
//!
//! A hand that goes round chooses the entry to evict. An entry that was used since the hand's last
//! visit stays for another round.

use super::entry::Entry;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The bytes that all entries may hold together.
const MOST_BYTES: usize = 64 << 20;

/// Entries by path. The key of a directory, which stands for its index, has a slash at the end.
pub struct Cache {
    places: HashMap<Box<[u8]>, usize>,
    slots: Vec<Slot>,
    hand: usize,
    /// The position of the second hand; see [`next`](Cache::next).
    patrol: usize,
    most: usize,
    bytes: usize,
}

struct Slot {
    key: Box<[u8]>,
    entry: Arc<Entry>,
    weight: usize,
}

impl Cache {
    /// Returns a cache for at most `most` entries.
    pub fn new(most: usize) -> Cache {
        Cache { places: HashMap::new(), slots: Vec::new(), hand: 0, patrol: 0, most, bytes: 0 }
    }

    /// Returns the entry for this path.
    #[inline]
    pub fn find(&self, path: &[u8], is_directory: bool) -> Option<Arc<Entry>> {
        let place = if is_directory { self.places.get(&key(path, true)) } else { self.places.get(path) };
        let entry = &self.slots[*place?].entry;
        // Most entries are marked already: a write would only move the cache line.
        if !entry.used.load(Relaxed) {
            entry.used.store(true, Relaxed);
        }
        Some(Arc::clone(entry))
    }

    /// Adds an entry, and evicts others if there is no room.
    pub fn insert(&mut self, path: &[u8], is_directory: bool, entry: Arc<Entry>) {
        self.remove(path, is_directory);
        let weight = entry.weight();
        while self.slots.len() >= self.most || !self.slots.is_empty() && self.bytes + weight > MOST_BYTES {
            self.evict();
        }
        let key = key(path, is_directory);
        self.places.insert(key.clone(), self.slots.len());
        self.slots.push(Slot { key, entry, weight });
        self.bytes += weight;
    }

    /// Removes the entry for this path.
    pub fn remove(&mut self, path: &[u8], is_directory: bool) {
        if let Some(&place) = self.places.get(&key(path, is_directory)) {
            self.take_out(place);
        }
    }

    /// Returns the next `count` entries of a second hand that goes round as well, each with its key
    /// for [`forget`](Cache::forget).
    pub fn next(&mut self, count: usize) -> Vec<(Box<[u8]>, Arc<Entry>)> {
        let count = count.min(self.slots.len());
        let places = (0..count).map(|step| (self.patrol + step) % self.slots.len());
        let next = places.map(|place| (self.slots[place].key.clone(), Arc::clone(&self.slots[place].entry))).collect();
        self.patrol = if count == 0 { 0 } else { (self.patrol + count) % self.slots.len() };
        next
    }

    /// Removes this entry, unless the key has another entry by now.
    pub fn forget(&mut self, key: &[u8], entry: &Arc<Entry>) {
        if let Some(&place) = self.places.get(key)
            && Arc::ptr_eq(&self.slots[place].entry, entry)
        {
            self.take_out(place);
        }
    }

    fn evict(&mut self) {
        loop {
            self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
            if !self.slots[self.hand].entry.used.swap(false, Relaxed) {
                return self.take_out(self.hand);
            }
            self.hand += 1;
        }
    }

    /// Removes an entry. The last entry moves to its place.
    fn take_out(&mut self, place: usize) {
        let slot = self.slots.swap_remove(place);
        self.places.remove(&slot.key);
        self.bytes -= slot.weight;
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.key.clone(), place);
        }
    }
}

/// Returns the key for a path. The path of a file never ends with a slash.
fn key(path: &[u8], is_directory: bool) -> Box<[u8]> {
    let slash: &[u8] = if is_directory { b"/" } else { b"" };
    [path, slash].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Top;

    #[test]
    fn the_number_of_entries_is_bounded_and_those_in_use_stay() {
        let directory = std::env::temp_dir().join(format!("sinew-web-cache-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("file"), "content").unwrap();
        let top = Top::open(&directory, false).unwrap();
        let entry = || Arc::new(Entry::new(&top, b"file", top.open_file(b"file").unwrap().0, None, 0).unwrap());
        let mut cache = Cache::new(8);
        cache.insert(b"popular", false, entry());
        cache.insert(b"popular", true, entry());
        for number in 0..100 {
            assert!(cache.find(b"popular", false).is_some() && cache.find(b"popular", true).is_some());
            cache.insert(format!("other {number}").as_bytes(), false, entry());
            assert!(cache.slots.len() <= 8 && cache.places.len() == cache.slots.len());
        }
        assert_eq!(cache.bytes, cache.slots.iter().map(|slot| slot.weight).sum::<usize>());
        assert!(cache.places.iter().all(|(key, &place)| cache.slots[place].key == *key));
        cache.remove(b"popular", true);
        assert!(cache.find(b"popular", true).is_none() && cache.find(b"popular", false).is_some());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
