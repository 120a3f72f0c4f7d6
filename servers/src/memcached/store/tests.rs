//! A shard against a map, and what it gives up.

use super::item::Cursor;
use super::shard::{Content, Shard};
use super::{Fresh, Moment, Outcome, Terms};
use sinew_memcached_protocol::Verb;
use std::collections::HashMap;

const NOW: Moment = Moment { now: 100, flushed: 0 };

/// Not a good hash: places collide, and so do hashes.
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
fn a_shard_is_a_map_as_long_as_there_is_room() {
    let (mut shard, fresh) = (Shard::new(64 << 20, 1 << 20, true), Fresh::default());
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
    assert_eq!(shard.counters.evictions, 0);
    for (key, data) in &model {
        assert_eq!(value(&mut shard, key, now).as_ref(), Some(data));
    }
}

#[test]
fn memory_comes_back_to_the_last_block() {
    let (mut shard, fresh) = (Shard::new(4 << 20, 1 << 20, true), Fresh::default());
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
fn the_oldest_goes_first_and_what_was_asked_for_stays() {
    let (mut shard, fresh) = (Shard::new(1 << 20, 1 << 19, true), Fresh::default());
    let key = |number: usize| format!("key{number}").into_bytes();
    let mut last = 0;
    while shard.counters.evictions < 20_000 {
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
    assert!(shard.blocks.bytes() + shard.index.bytes() <= 1 << 20);
}

#[test]
fn what_has_expired_goes_before_what_has_not() {
    let (mut shard, fresh) = (Shard::new(1 << 20, 1 << 19, false), Fresh::default());
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
    assert_eq!((shard.counters.evictions, shard.counters.reclaimed), (0, 1));
}

#[test]
fn a_pinned_item_keeps_its_bytes() {
    let (mut shard, fresh) = (Shard::new(1 << 20, 1 << 19, true), Fresh::default());
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
    assert_eq!(shard.blocks.available(), before + shard.blocks.item_blocks(item));
}

#[test]
fn a_draft_that_is_given_up_leaves_nothing() {
    let mut shard = Shard::new(1 << 20, 1 << 19, true);
    let mut draft = shard.draft(b"key", &[1; 100], NOW).expect("there is room");
    assert!(shard.extend(&mut draft, &[2; 10_000], NOW));
    assert!(!shard.extend(&mut draft, &[2; 2 << 20], NOW));
    shard.discard(draft);
    assert_eq!(shard.blocks.bytes_in_use(), 0);
}
