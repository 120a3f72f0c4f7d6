//! A shard compared with a map, and the order in which it evicts.

use super::blocks::PAGE;
use super::classes::{Classes, Sizing};
use super::family::Family;
use super::item::Cursor;
use super::pool::Pool;
use super::shard::Shard;
use super::{Content, Fresh, Moment, Outcome, Plan, Store, Terms};
use crate::memcached::watch::Watchers;
use sinew_memcached_protocol::Verb;
use std::collections::HashMap;
use std::sync::Arc;

const NOW: Moment = Moment { now: 100, flushed: 0 };

/// Returns a shard that has all of the memory.
fn shard(bytes: usize, evicts: bool) -> Shard {
    let classes = Classes::new(Sizing::default());
    let family = Family::new(1, Pool::new(bytes, 1), classes, Arc::new(Watchers::new(0)));
    Shard::new(Arc::new(family), 0, bytes / 32, 1 << 20, evicts)
}

fn evictions(shard: &Shard) -> u64 {
    shard.classes.iter().map(|class| class.counters.evicted).sum()
}

/// Returns a poor hash, so that places and hashes collide.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into())) % 5000
}

fn store(
    shard: &mut Shard,
    fresh: &Fresh,
    verb: Verb,
    key: &[u8],
    value: &[u8],
    moment: Moment,
    expiry: u32,
) -> Outcome {
    let mut terms = Terms::new(key, 7, expiry, fresh, moment);
    shard.store(verb, hash(key), &mut terms, Content::Whole(value))
}

fn value(shard: &mut Shard, key: &[u8], moment: Moment) -> Option<Vec<u8>> {
    let item = shard.find(hash(key), key, moment)?;
    let (mut cursor, mut out) = (shard.blocks.value(item), Vec::new());
    shard.blocks.copy_out(&mut cursor, shard.blocks.length(item) as usize, &mut out);
    let mut whole = Vec::new();
    shard.blocks.copy_out(&mut Cursor::start(item), key.len(), &mut whole);
    assert_eq!(whole, key);
    Some(out)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn a_shard_is_a_map_while_there_is_room() {
    let (mut shard, fresh) = (shard(64 << 20, true), Fresh::default());
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut random = Random(88_172_645_463_325_252);
    let mut now = NOW;
    for step in 0..60_000 {
        let length = [1, 8, 16, 17, 60, 76, 77, 250][random.below(8)];
        let number = random.below(2000).to_string();
        let mut key = vec![b'k'; length];
        key.extend_from_slice(number.as_bytes());
        key.truncate(250);
        let data = vec![step as u8; [0, 1, 15, 16, 60, 61, 100, 3000][random.below(8)]];
        match random.below(8) {
            0..=2 => {
                assert!(matches!(store(&mut shard, &fresh, Verb::Set, &key, &data, now, 0), Outcome::Stored { .. }));
                model.insert(key, data);
            }
            3 => {
                let outcome = store(&mut shard, &fresh, Verb::Append, &key, &data, now, 0);
                assert_eq!(matches!(outcome, Outcome::Stored { .. }), model.contains_key(&key));
                if let Some(old) = model.get_mut(&key) {
                    old.extend_from_slice(&data);
                }
            }
            4 => {
                let outcome = store(&mut shard, &fresh, Verb::Prepend, &key, &data, now, 0);
                assert_eq!(matches!(outcome, Outcome::Stored { .. }), model.contains_key(&key));
                if let Some(old) = model.get_mut(&key) {
                    old.splice(..0, data);
                }
            }
            5 => {
                let found = shard.find(hash(&key), &key, now);
                assert_eq!(found.is_some(), model.remove(&key).is_some());
                found.into_iter().for_each(|item| shard.remove(item));
            }
            6 if random.below(3000) == 0 => {
                now.flushed = fresh.next();
                model.clear();
            }
            _ => assert_eq!(value(&mut shard, &key, now).as_ref(), model.get(&key), "step {step}"),
        }
    }
    assert_eq!(evictions(&shard), 0);
    for (key, data) in &model {
        assert_eq!(value(&mut shard, key, now).as_ref(), Some(data));
    }
}

#[test]
fn all_blocks_are_freed() {
    let (mut shard, fresh) = (shard(4 << 20, true), Fresh::default());
    let keys: Vec<Vec<u8>> = (0..3000).map(|number| format!("key{number}").into_bytes()).collect();
    for key in &keys {
        store(&mut shard, &fresh, Verb::Set, key, &vec![1; key.len() * 20], NOW, 0);
    }
    assert!(shard.blocks.bytes_in_use() > 0);
    for key in &keys {
        let found = shard.find(hash(key), key, NOW);
        found.into_iter().for_each(|item| shard.remove(item));
    }
    assert_eq!((shard.index.items(), shard.blocks.bytes_in_use(), shard.expiring), (0, 0, 0));
}

#[test]
fn the_oldest_item_is_evicted_and_used_items_stay() {
    let (mut shard, fresh) = (shard(1 << 20, true), Fresh::default());
    let key = |number: usize| format!("key{number}").into_bytes();
    let mut last = 0;
    while evictions(&shard) < 20_000 {
        store(&mut shard, &fresh, Verb::Set, &key(last), &[0; 100], NOW, 0);
        if let Some(item) = shard.find(hash(&key(7)), &key(7), NOW) {
            shard.notice(item, NOW);
        }
        last += 1;
    }
    assert!(value(&mut shard, &key(7), NOW).is_some(), "it was asked for all the time");
    let first = (8..last).find(|number| value(&mut shard, &key(*number), NOW).is_some()).expect("there are some");
    assert!(first > 19_000);
    assert!((first..last).all(|number| value(&mut shard, &key(number), NOW).is_some()), "there is a gap");
    assert!(shard.blocks.bytes() <= (1 << 20) + PAGE && shard.index.bytes() <= 1 << 15);
}

#[test]
fn expired_items_are_removed_before_live_ones() {
    let (mut shard, fresh) = (shard(1 << 20, false), Fresh::default());
    let later = Moment { now: 200, flushed: 0 };
    let mut number = 0;
    while matches!(
        store(&mut shard, &fresh, Verb::Set, format!("a{number}").as_bytes(), &[0; 100], NOW, 150),
        Outcome::Stored { .. }
    ) {
        number += 1;
    }
    assert!(number > 4000);
    assert!(matches!(store(&mut shard, &fresh, Verb::Set, b"b", &[0; 100], later, 0), Outcome::Stored { .. }));
    let reclaimed: u64 = shard.classes.iter().map(|class| class.counters.reclaimed).sum();
    assert_eq!((evictions(&shard), reclaimed), (0, 1));
}

#[test]
fn storing_over_an_expired_item_counts_it_as_expired_and_not_as_reclaimed() {
    let (mut shard, fresh) = (shard(1 << 20, true), Fresh::default());
    let later = Moment { now: 200, flushed: 0 };
    store(&mut shard, &fresh, Verb::Set, b"a", b"old", NOW, 150);
    assert!(matches!(store(&mut shard, &fresh, Verb::Add, b"a", b"new", later, 0), Outcome::Stored { .. }));
    let reclaimed: u64 = shard.classes.iter().map(|class| class.counters.reclaimed).sum();
    assert_eq!((shard.counters.get_expired, reclaimed), (1, 0));
}

#[test]
fn a_pinned_item_keeps_its_bytes() {
    let (mut shard, fresh) = (shard(1 << 20, true), Fresh::default());
    store(&mut shard, &fresh, Verb::Set, b"pinned", &[42; 5000], NOW, 0);
    let item = shard.find(hash(b"pinned"), b"pinned", NOW).expect("it was stored");
    let (mut cursor, mut out) = (shard.blocks.value(item), Vec::new());
    assert!(shard.pin(item));
    for number in 0..20_000 {
        store(&mut shard, &fresh, Verb::Set, format!("k{number}").as_bytes(), &[0; 100], NOW, 0);
    }
    assert_eq!(value(&mut shard, b"pinned", NOW), None);
    shard.blocks.copy_out(&mut cursor, 5000, &mut out);
    assert!(out == [42; 5000]);
    let before = shard.blocks.available();
    shard.unpin(item);
    assert_eq!(shard.blocks.available(), before + super::item::blocks_for(5006));
}

#[test]
fn a_discarded_draft_frees_its_memory() {
    let mut shard = shard(1 << 20, true);
    let mut draft = shard.draft(b"key", &[1; 100], 3 << 20, NOW).expect("there is room");
    assert!(shard.extend(&mut draft, &[2; 10_000], NOW));
    assert!(!shard.extend(&mut draft, &vec![2; 2 << 20], NOW));
    shard.discard(draft);
    assert_eq!(shard.blocks.bytes_in_use(), 0);
}

/// Stores a value as a session does that receives it piece by piece.
fn upload(shard: &mut Shard, fresh: &Fresh, key: &[u8], value: &[u8], piece: usize) -> bool {
    let Some(mut draft) = shard.draft(key, b"", value.len(), NOW) else { return false };
    for piece in value.chunks(piece) {
        if !shard.receive(&mut draft, piece, NOW) {
            shard.discard(draft);
            return false;
        }
    }
    let mut terms = Terms::new(key, 0, 0, fresh, NOW);
    let content = Content::Drafted(draft, value.len() as u32);
    matches!(shard.store(Verb::Set, hash(key), &mut terms, content), Outcome::Stored { .. })
}

#[test]
fn values_of_all_lengths_are_read_back_and_freed() {
    let (mut shard, fresh) = (shard(8 << 20, true), Fresh::default());
    for length in [16_000, 16_384, 61_436, 61_437, 65_484, 65_485, 65_536, 126_000, 131_016, 131_017, 1_000_000] {
        let data: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
        for piece in [100, 1000, 16_384, length] {
            assert!(upload(&mut shard, &fresh, b"key", &data, piece));
            assert!(value(&mut shard, b"key", NOW).as_ref() == Some(&data), "{length} in pieces of {piece}");
        }
        let more = &data[..length / 3];
        store(&mut shard, &fresh, Verb::Append, b"key", more, NOW, 0);
        store(&mut shard, &fresh, Verb::Prepend, b"key", more, NOW, 0);
        let whole = [more, &data[..], more].concat();
        let expected = if length == 1_000_000 { &data } else { &whole };
        assert!(value(&mut shard, b"key", NOW).as_ref() == Some(expected), "{length}");
        let item = shard.find(hash(b"key"), b"key", NOW).expect("it is there");
        shard.remove(item);
        assert_eq!(shard.blocks.bytes_in_use(), 0, "{length}");
    }
}

#[test]
fn large_values_take_little_more_than_their_length() {
    let (mut shard, fresh) = (shard(64 << 20, false), Fresh::default());
    let data = vec![1; (1 << 20) - 250];
    let stored = (0..100).take_while(|number| upload(&mut shard, &fresh, format!("k{number}").as_bytes(), &data, 9000));
    assert_eq!(stored.count(), 64);
}

#[test]
fn the_beginning_of_a_large_value_takes_no_page() {
    let mut shard = shard(8 << 20, true);
    let mut draft = shard.draft(b"key", b"", 1 << 20, NOW).expect("there is room");
    assert!(shard.extend(&mut draft, &[1; 1000], NOW));
    assert!(shard.blocks.bytes_in_use() < 1200);
    assert!(shard.extend(&mut draft, &[1; 16_000], NOW));
    assert_eq!(shard.blocks.bytes_in_use(), PAGE);
    shard.discard(draft);
    assert_eq!(shard.blocks.bytes_in_use(), 0);
}

#[test]
fn unfinished_values_take_at_most_a_quarter_of_the_memory() {
    let (mut shard, fresh) = (shard(64 << 20, true), Fresh::default());
    for _ in 0..2 {
        let mut drafts = Vec::new();
        loop {
            let mut draft = shard.draft(b"half", b"", 1_000_000, NOW).expect("there is room");
            let fits = [1; 500_000].chunks(16_384).all(|piece| shard.receive(&mut draft, piece, NOW));
            drafts.push(draft);
            if !fits {
                break;
            }
        }
        let bytes = shard.blocks.bytes_in_use();
        assert!((15 << 20..=(16 << 20) + PAGE).contains(&bytes), "{bytes} in {} values", drafts.len());
        // Values that are there as a whole are stored all the same.
        let stored = store(&mut shard, &fresh, Verb::Set, b"key", &[2; 30_000], NOW, 0);
        assert!(matches!(stored, Outcome::Stored { .. }));
        shard.remove(shard.index.find(&shard.blocks, hash(b"key"), b"key").expect("it is there"));
        drafts.into_iter().for_each(|draft| shard.discard(draft));
        assert_eq!(shard.blocks.bytes_in_use(), 0);
    }
}

#[test]
fn a_small_memory_can_receive_one_largest_value() {
    let (mut shard, fresh) = (shard(2 << 20, true), Fresh::default());
    assert!((0..5).all(|_| upload(&mut shard, &fresh, b"key", &[1; 1_000_000], 16_384)));
}

#[test]
fn the_oldest_large_value_of_all_shards_is_evicted_first() {
    let plan = Plan { bytes: 64 << 20, largest: 1 << 20, evicts: true, sizing: Sizing::default() };
    let store = Store::new(plan, Arc::new(Watchers::new(0)));
    assert!(store.shards() > 4);
    let data = vec![1; 1_000_000];
    let key = |number: usize| format!("key{number}").into_bytes();
    for number in 0..200 {
        let (key, place) = (key(number), store.place(&key(number)));
        let mut shard = store.lock(place.shard);
        let mut draft = shard.draft(&key, b"", data.len(), NOW).expect("there is room");
        assert!(data.chunks(16_384).all(|piece| shard.extend(&mut draft, piece, NOW)));
        let mut terms = Terms::new(&key, 0, 0, &store.fresh, NOW);
        let content = Content::Drafted(draft, data.len() as u32);
        assert!(matches!(shard.store(Verb::Set, place.hash, &mut terms, content), Outcome::Stored { .. }));
    }
    let is_there = |number: usize| {
        let place = store.place(&key(number));
        store.lock(place.shard).find(place.hash, &key(number), NOW).is_some()
    };
    let first = (0..200).find(|number| is_there(*number)).expect("there are some");
    assert!((first..200).all(is_there), "there is a gap");
    assert!(200 - first >= 63, "only {} are left", 200 - first);
}

#[test]
fn small_values_evict_older_large_values() {
    let (mut shard, fresh) = (shard(4 << 20, true), Fresh::default());
    let data = vec![1; 1_000_000];
    while evictions(&shard) == 0 {
        assert!(upload(&mut shard, &fresh, format!("large{}", fresh.next()).as_bytes(), &data, 9000));
    }
    let mut number = 0;
    while evictions(&shard) < 1000 {
        store(&mut shard, &fresh, Verb::Set, format!("small{number}").as_bytes(), &[0; 100], NOW, 0);
        number += 1;
    }
    assert!(shard.classes.last().is_some_and(|class| class.stock.items == 0));
    assert!(number > 20_000, "{number} small values in four megabytes");
    // And back: a large value takes blocks.
    assert!(upload(&mut shard, &fresh, b"large", &data, 9000));
    assert!(value(&mut shard, b"large", NOW).as_ref() == Some(&data));
}

#[test]
fn a_lower_limit_returns_pages_to_the_system() {
    let plan = Plan { bytes: 16 << 20, largest: 1 << 20, evicts: true, sizing: Sizing::default() };
    let store = Store::new(plan, Arc::new(Watchers::new(0)));
    let (key, data) = (b"key", vec![1; 900_000]);
    let place = store.place(key);
    let mut shard = store.lock(place.shard);
    assert!(upload(&mut shard, &store.fresh, key, &data, 9000));
    drop(shard);
    let before = store.totals().malloced;
    assert!(before >= 900_000);
    store.set_limit(1 << 16);
    let mut shard = store.lock(place.shard);
    let item = shard.find(hash(key), key, NOW).expect("it is there");
    shard.remove(item);
    drop(shard);
    assert!(store.totals().malloced <= PAGE + store.shards() * PAGE);
}
