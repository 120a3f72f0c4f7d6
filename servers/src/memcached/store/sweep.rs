//! The sweeper: a fibre that frees the memory of items that have expired or been flushed.

use super::blocks::NONE;
use super::classes::MOST_CLASSES;
use super::item::FETCHED;
use super::{Moment, Store};
use sinew::Fibre;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The number of items or places that are visited while the lock is held. Unmeasured.
pub const STEP: usize = 64;

/// The number of places after which the lock is released, even if they are empty. Unmeasured.
const EMPTY_STEP: usize = 16 * STEP;

/// The pause between two steps. A shard of 100,000 items takes 3 seconds.
const PAUSE: Duration = Duration::from_millis(2);

/// The shortest and the longest pause between two rounds, in seconds.
const REST: std::ops::RangeInclusive<u32> = 1..=60;

/// Classes of sizes, as bits.
pub type Classes = u64;

const _: () = assert!(MOST_CLASSES <= Classes::BITS as usize);

/// The fibre that sweeps.
#[derive(Default)]
pub struct Sweeper {
    fibre: OnceLock<Fibre>,
    /// Whether the fibre sleeps until there is work.
    sleeps: AtomicBool,
    /// Whether it sweeps only when a client asks for it.
    is_manual: AtomicBool,
    /// The classes that a client wants it to crawl through; 0 is none.
    wanted: AtomicU64,
    /// Whether it crawls because a client asked for it.
    crawls: AtomicBool,
    starts: AtomicU64,
}

impl Sweeper {
    /// Returns a sweeper that sweeps only when a client asks for it.
    pub fn manual() -> Sweeper {
        Sweeper { is_manual: AtomicBool::new(true), ..Sweeper::default() }
    }

    /// Says that an item may expire. Any thread may call this.
    #[inline]
    pub fn call(&self) {
        // SeqCst pairs with `fall_asleep`: either the sweeper sees the item, or this sees that it
        // sleeps.
        if self.sleeps.load(Ordering::SeqCst) {
            self.call_slow();
        }
    }

    #[cold]
    fn call_slow(&self) {
        if !self.is_manual.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Asks for a crawl through items of these classes. Returns `false` if there is one already.
    pub fn crawl(&self, classes: Classes) -> bool {
        // SeqCst pairs with `fall_asleep`: either the sweeper sees the request, or this sees that
        // it sleeps.
        let is_free = !self.crawls.swap(true, Ordering::SeqCst);
        if is_free {
            self.wanted.store(classes, Ordering::SeqCst);
            self.wake();
        }
        is_free
    }

    /// Returns whether it crawls because a client asked for it.
    pub fn is_crawling(&self) -> bool {
        self.crawls.load(Ordering::SeqCst)
    }

    /// Returns the number of rounds that it has begun.
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Sweeps until the fibre is cancelled.
    pub fn run(&self, store: &Store, moment: impl Fn() -> Moment) {
        let _ = self.fibre.set(sinew::current());
        let (mut flushed, mut next) = (0, 0);
        while sinew::cancel::check().is_ok() {
            let wanted = self.wanted.swap(0, Ordering::SeqCst);
            if wanted != 0 {
                let done = self.round(store, &moment, Some(wanted));
                self.crawls.store(false, Ordering::SeqCst);
                if done.is_err() {
                    return;
                }
                continue;
            }
            let is_due =
                || !self.is_manual.load(Ordering::Relaxed) && (moment().flushed != flushed || has_expiring(store));
            if !is_due() {
                self.fall_asleep(is_due);
                continue;
            }
            if moment().now < next {
                let rest = Duration::from_secs((next - moment().now).into());
                sinew::park_timeout(rest);
                continue;
            }
            flushed = moment().flushed;
            let Ok(earliest) = self.round(store, &moment, None) else { return };
            let now = moment().now;
            next = now + earliest.saturating_sub(now).clamp(*REST.start(), *REST.end());
        }
    }

    /// Goes through all shards once. Returns when the next item expires.
    fn round(
        &self,
        store: &Store,
        moment: &impl Fn() -> Moment,
        crawled: Option<Classes>,
    ) -> Result<u32, sinew::cancel::Cancelled> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let mut earliest = u32::MAX;
        for shard in 0..store.shards() {
            if store.lock(shard).index.items() == 0 {
                continue;
            }
            earliest = earliest.min(sweep(store, shard, moment, crawled)?);
        }
        Ok(earliest)
    }

    fn fall_asleep(&self, is_due: impl Fn() -> bool) {
        self.sleeps.store(true, Ordering::SeqCst);
        if !is_due() && self.wanted.load(Ordering::SeqCst) == 0 {
            sinew::park();
        }
        self.sleeps.store(false, Ordering::SeqCst);
    }

    /// Wakes the fibre, so that it sees its work, or that it has been cancelled.
    pub fn wake(&self) {
        if let Some(fibre) = self.fibre.get() {
            fibre.unpark();
        }
    }
}

fn has_expiring(store: &Store) -> bool {
    (0..store.shards()).any(|shard| store.lock(shard).expiring > 0)
}

/// Goes through a shard, a few places at a time. Returns when its next item expires.
fn sweep(
    store: &Store,
    shard: usize,
    moment: &impl Fn() -> Moment,
    crawled: Option<Classes>,
) -> Result<u32, sinew::cancel::Cancelled> {
    let (mut place, mut earliest) = (0, u32::MAX);
    loop {
        let now = moment();
        let mut shard = store.lock(shard);
        let end = (place + EMPTY_STEP).min(shard.index.places());
        let mut looked_at = 0;
        while place < end && looked_at < STEP {
            let mut item = shard.index.first_at(place);
            while item != NONE {
                let next = shard.blocks.chained(item);
                looked_at += 1;
                let expiry = shard.blocks.expiry(item);
                let class = shard.class_of(item);
                let is_wanted = crawled.is_none_or(|classes| classes >> class & 1 == 1);
                shard.classes[class].counters.crawler_items_checked += u64::from(is_wanted && crawled.is_some());
                let is_expired = expiry != 0 && expiry <= now.now;
                if is_wanted && (is_expired || shard.blocks.unique(item) <= now.flushed) {
                    let unfetched = is_expired && !shard.blocks.is_marked(item, FETCHED);
                    let counters = &mut shard.classes[class].counters;
                    counters.expired_unfetched += u64::from(unfetched);
                    *(if crawled.is_some() { &mut counters.crawler_reclaimed } else { &mut counters.reclaimed }) += 1;
                    shard.remove(item);
                } else if expiry != 0 {
                    earliest = earliest.min(expiry);
                }
                item = next;
            }
            place += 1;
        }
        let is_done = place >= shard.index.places();
        drop(shard);
        if is_done {
            return Ok(earliest);
        }
        match crawled {
            // A client waits for the result.
            Some(_) => sinew::yield_now(),
            None => sinew::time::try_sleep(PAUSE)?,
        }
        sinew::cancel::check()?;
    }
}
