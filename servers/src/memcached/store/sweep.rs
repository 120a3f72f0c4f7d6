//! Memory back from what has expired and what nobody asks for any more.

use super::blocks::NONE;
use super::item::FETCHED;
use super::{Moment, Store};
use sinew::Fibre;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Places of the index that are looked at while the lock is held. Unmeasured.
const STEP: usize = 64;

/// Between two steps. A shard of 100,000 items takes 3 seconds.
const PAUSE: Duration = Duration::from_millis(2);

/// Between two rounds, at least and at most, in seconds.
const REST: std::ops::RangeInclusive<u32> = 1..=60;

/// The fibre that sweeps.
#[derive(Default)]
pub struct Sweeper {
    fibre: OnceLock<Fibre>,
    /// Whether it waits for work.
    sleeps: AtomicBool,
}

impl Sweeper {
    /// Says that there is something that may expire. By anyone.
    #[inline]
    pub fn call(&self) {
        // SeqCst pairs with `fall_asleep`: the item is seen there, or the sleeper here.
        if self.sleeps.load(Ordering::SeqCst) {
            self.call_slow();
        }
    }

    #[cold]
    fn call_slow(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst)
            && let Some(fibre) = self.fibre.get()
        {
            fibre.unpark();
        }
    }

    /// Sweeps until the fibre is cancelled.
    pub fn run(&self, store: &Store, moment: impl Fn() -> Moment) {
        let _ = self.fibre.set(sinew::current());
        let mut flushed = 0;
        while sinew::cancel::check().is_ok() {
            let something = moment().flushed != flushed || has_expiring(store);
            if !something {
                self.fall_asleep(store, || moment().flushed != flushed);
                continue;
            }
            flushed = moment().flushed;
            let mut earliest = u32::MAX;
            for shard in 0..store.shards() {
                let Ok(expiry) = sweep(store, shard, &moment) else { return };
                earliest = earliest.min(expiry);
            }
            let rest = earliest.saturating_sub(moment().now).clamp(*REST.start(), *REST.end());
            if sinew::time::try_sleep(Duration::from_secs(rest.into())).is_err() {
                return;
            }
        }
    }

    fn fall_asleep(&self, store: &Store, is_flushed: impl Fn() -> bool) {
        self.sleeps.store(true, Ordering::SeqCst);
        if has_expiring(store) || is_flushed() {
            self.sleeps.store(false, Ordering::SeqCst);
        } else {
            sinew::park();
        }
    }

    /// Wakes it, so that it sees that it has been cancelled.
    pub fn wake(&self) {
        if let Some(fibre) = self.fibre.get() {
            fibre.unpark();
        }
    }
}

fn has_expiring(store: &Store) -> bool {
    (0..store.shards()).any(|shard| store.lock(shard).expiring > 0)
}

/// One round through a shard, a few places at a time. When the next of its items expires.
fn sweep(store: &Store, shard: usize, moment: &impl Fn() -> Moment) -> Result<u32, sinew::cancel::Cancelled> {
    let (mut place, mut earliest) = (0, u32::MAX);
    loop {
        let now = moment();
        let mut shard = store.lock(shard);
        let end = (place + STEP).min(shard.index.places());
        while place < end {
            let mut item = shard.index.first_at(place);
            while item != NONE {
                let next = shard.blocks.chained(item);
                let expiry = shard.blocks.expiry(item);
                let is_gone = expiry != 0 && expiry <= now.now || shard.blocks.unique(item) <= now.flushed;
                if is_gone {
                    let unfetched = !shard.blocks.is_marked(item, FETCHED);
                    shard.counters.expired_unfetched += u64::from(unfetched);
                    shard.counters.reclaimed += 1;
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
        sinew::time::try_sleep(PAUSE)?;
    }
}
