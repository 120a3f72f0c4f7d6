//! Fair work stealing: processors run what is in their own queues, and watch that no other queue
//! is neglected. The folder's README has the protocol.

#[cfg(all(test, not(sinew_loom)))]
mod tests;

use super::arrivals::Arrivals;
use super::dice::Dice;
use super::meter::Cause;
use super::stations::Stations;
use super::{CacheId, Claim, Effort, Local, Placement, Ready, Scheduler, Wake};
use crate::base::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Relaxed};
use crate::base::clock::cycles_in_us;
use crate::base::spin::{SpinGuard, SpinLock, nap};
use crate::strand::Levels;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// A new sample of the waiting time weighs 12 parts of 16, as in Cforall. The thesis finds that
/// only the magnitude matters.
const NEW_SAMPLE: u64 = 12;
const SAMPLE_PARTS: u64 = 16;

/// A queue is neglected when its strands wait this many times as long as those of the processor
/// that looks (Cforall's bias) ...
const RESCUE_BIAS: u64 = 8;

/// ... and at least for this long. Shorter neglect is mostly an interrupt. With 120 µs the mean of
/// `transfer` is twice as long, and throughput is the same.
const RESCUE_FLOOR_US: u64 = 40;

/// A queue is out of balance with that of the looker when its waits and its length are greater by
/// more than a quarter, at this many looks in a row. A strand that moves leaves its caches behind:
/// 100 pairs that talk over channels are slower by a fifth if queues are evened out to the last
/// strand.
const BALANCE_LOOKS: u32 = 3;

/// If a held lock keeps a processor from a rescue, the processor naps at every second look, provided that its
/// own queue is as long as its part of the other one. It naps less often if its own queue is longer. With 9
/// instead of 2, the turns of yielding fibres on a busy machine differ by a factor of 1.55 in one run of ten
/// instead of 1.39. The number of turns is the same.
const LOOKS_PER_NAP: usize = 2;

/// A single strand that is older than this is not about to be run by its own processor: a switch
/// takes hundredths of this. Unmeasured beyond that.
const YOUNG_US: u64 = 2;

/// The largest number of strands that a processor takes at once when it shares or balances a
/// queue: each is a cache miss under the lock of that queue. Unmeasured beyond that.
const LARGEST_SHARE: usize = 64;

/// The chance in 256 that a processor looks at a queue behind another last-level cache, once it
/// has picked that queue (Cforall's figure).
const REMOTE_LOOKS: usize = 3;

/// A fair work-stealing scheduler: no strand waits long because of the queue that it is in,
/// although no strand is preempted.
#[derive(Default)]
pub struct Fair {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queues: Stations<Queue>,
}

/// The two sub-queues of one processor.
struct Queue {
    /// Strands that became ready on the processor.
    own: CachePadded<Own>,
    /// Strands that came from elsewhere.
    inbox: CachePadded<Arrivals>,
    /// A copy of what others want to know. They read it without a cache miss for the processor,
    /// which writes it at its beats and when its empty queue fills.
    bulletin: CachePadded<Bulletin>,
}

struct Own {
    strands: SpinLock<Levels>,
    /// The length of `strands`. Written under its lock.
    len: AtomicU32,
    /// When its head became ready, as of the last note of it; an earlier time since then. Written
    /// under its lock.
    head_since: AtomicU64,
}

struct Bulletin {
    len: AtomicU32,
    head_since: AtomicU64,
    /// The moving average of how long strands waited before they ran.
    wait: AtomicU64,
    cache: AtomicU16,
    /// Whether a processor has this station.
    taken: AtomicBool,
}

impl Scheduler for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn attach(&self, placement: Placement) -> Box<dyn Local> {
        Box::new(self.end(placement))
    }

    fn inject(&self, strand: Ready, now: u64) -> Wake {
        self.shared.queues.in_turn(Queue::is_taken).inbox.arrive(strand, now);
        Wake::Backlog
    }
}

impl Fair {
    fn end(&self, placement: Placement) -> End {
        let (station, queue) = self.shared.queues.take();
        queue.bulletin.taken.store(true, Relaxed);
        let end = End {
            shared: Arc::clone(&self.shared),
            station,
            queue,
            dice: Dice::of(station),
            wait: Cell::new(0),
            sampled: Cell::new(0),
            advertised: Cell::new(false),
            imbalance: Cell::new(0),
            held: Cell::new(None),
            debt: Cell::new(0),
            rescue_floor: cycles_in_us(RESCUE_FLOOR_US),
            young: cycles_in_us(YOUNG_US),
            placement,
        };
        end.note_cache();
        end
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            own: CachePadded::new(Own {
                strands: SpinLock::new(Levels::new()),
                len: AtomicU32::new(0),
                head_since: AtomicU64::new(0),
            }),
            inbox: CachePadded::default(),
            bulletin: CachePadded::new(Bulletin {
                len: AtomicU32::new(0),
                head_since: AtomicU64::new(0),
                wait: AtomicU64::new(0),
                cache: AtomicU16::new(0),
                taken: AtomicBool::new(false),
            }),
        }
    }
}

impl Queue {
    fn is_taken(&self) -> bool {
        self.bulletin.taken.load(Relaxed)
    }

    fn cache(&self) -> CacheId {
        CacheId(self.bulletin.cache.load(Relaxed))
    }

    /// Moves the arrivals behind what is in `strands`.
    #[cold]
    fn unpack(&self, strands: &mut Levels) {
        let mut fifo = self.inbox.take_all();
        while let Some(strand) = fifo.pop() {
            strands.push(strand);
        }
    }
}

impl Own {
    /// Copies what others read, after `strands` has changed under its lock.
    #[inline]
    fn note(&self, strands: &Levels) {
        self.len.store(strands.len() as u32, Relaxed);
        if let Some(claim) = strands.claim() {
            self.head_since.store(claim.ready_at, Relaxed);
        }
    }
}

/// A processor's own end.
struct End {
    shared: Arc<Shared>,
    placement: Placement,
    station: usize,
    queue: Arc<Queue>,
    dice: Dice,
    /// The moving average of how long strands waited before they ran here.
    wait: Cell<u64>,
    /// The time of its last sample.
    sampled: Cell<u64>,
    /// Whether the bulletin says that the queue has strands.
    advertised: Cell<bool>,
    /// The number of looks in a row that found a queue out of balance.
    imbalance: Cell<u32>,
    /// The station whose lock kept the processor from a rescue at the last beat.
    held: Cell<Option<usize>>,
    /// This processor's parts of the queues behind held locks, summed up over all looks since the last nap.
    debt: Cell<usize>,
    rescue_floor: u64,
    young: u64,
}

impl Local for End {
    #[inline]
    fn push(&self, strand: Ready, now: u64) -> Wake {
        match self.queue.own.strands.lock_at_once() {
            Some(strands) => self.push_to(strands, strand, now),
            None => self.push_slow(strand, now),
        }
    }

    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, now: u64, tell: &mut dyn FnMut(Wake)) {
        let own = &self.queue.own;
        let mut queue = own.strands.lock();
        let before = queue.len();
        strands.for_each(|strand| queue.push(strand));
        let len = queue.len();
        if len == before {
            return;
        }
        own.len.store(len as u32, Relaxed);
        if before == 0 {
            own.head_since.store(now, Relaxed);
        }
        drop(queue);
        if before == 0 {
            self.advertise_something();
        }
        tell(if len > 1 { Wake::Backlog } else { Wake::Lone });
    }

    #[inline]
    fn next(&self, now: u64) -> Option<Ready> {
        let queue = &*self.queue;
        if !queue.inbox.is_empty() {
            return self.next_slow(now);
        }
        if queue.own.len.load(Relaxed) == 0 {
            return None;
        }
        match queue.own.strands.lock_at_once() {
            Some(strands) => self.pop_from(strands, now),
            None => self.next_slow(now),
        }
    }

    #[inline]
    fn exchange(&self, strand: Ready, now: u64) -> Result<Ready, Ready> {
        let queue = &*self.queue;
        if !queue.inbox.is_empty() {
            return Ok(self.exchange_slow(strand, now));
        }
        Ok(match queue.own.strands.lock_at_once() {
            Some(strands) => self.exchange_in(strands, strand, now),
            None => self.exchange_slow(strand, now),
        })
    }

    fn claim(&self) -> Option<Claim> {
        let queue = &*self.queue;
        if queue.own.len.load(Relaxed) == 0 && queue.inbox.is_empty() {
            return None;
        }
        self.lock_and_unpack().claim()
    }

    fn search(&self, now: u64, effort: Effort) -> Option<Ready> {
        let cache = self.note_cache();
        let others =
            |near| self.shared.queues.others(self.station).filter(move |queue| (queue.cache() == cache) == near);
        // Queues under the same cache come first.
        let found = others(true).chain(others(false)).any(|queue| self.share(queue, now, effort));
        if found || effort == Effort::Greedy { self.next(now) } else { None }
    }

    fn beat(&self, now: u64) {
        self.advertise();
        let held = self.held.take();
        let picked = self.pick();
        if let Some(station) = picked {
            self.look_at(station, now);
        }
        if held != picked && self.held.get().is_none() {
            held.into_iter().for_each(|station| self.look_at(station, now));
        }
    }

    fn drain(&self) -> Option<Ready> {
        let next = self.next(0);
        if next.is_none() && self.queue.bulletin.taken.swap(false, Relaxed) {
            self.advertise();
            self.shared.queues.leave(self.station);
        }
        next
    }
}

/// Each step has a quick form, for a queue whose lock is free and whose inbox is empty, and a slow
/// form in a function of its own.
impl End {
    #[inline(always)]
    fn push_to(&self, mut strands: SpinGuard<'_, Levels>, strand: Ready, now: u64) -> Wake {
        let own = &self.queue.own;
        strands.push(strand);
        let len = strands.len();
        own.len.store(len as u32, Relaxed);
        if len > 1 {
            return Wake::Backlog;
        }
        own.head_since.store(now, Relaxed);
        drop(strands);
        self.advertise_something();
        Wake::Lone
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&self, strand: Ready, now: u64) -> Wake {
        self.push_to(self.queue.own.strands.lock(), strand, now)
    }

    #[inline(always)]
    fn pop_from(&self, mut strands: SpinGuard<'_, Levels>, now: u64) -> Option<Ready> {
        if strands.is_mixed() {
            return self.pop_mixed(strands, now);
        }
        let next = strands.pop_first()?;
        Some(self.popped(strands, next, now))
    }

    /// Pops a strand where several levels have strands. A function of its own that is called last:
    /// a call in the midst of the quick form would cost that 10 instructions.
    #[cold]
    #[inline(never)]
    fn pop_mixed(&self, mut strands: SpinGuard<'_, Levels>, now: u64) -> Option<Ready> {
        let next = strands.pop()?;
        Some(self.popped(strands, next, now))
    }

    #[inline(always)]
    fn popped(&self, strands: SpinGuard<'_, Levels>, next: Ready, now: u64) -> Ready {
        strands.prefetch_head();
        self.queue.own.len.store(strands.len() as u32, Relaxed);
        if now != self.sampled.get() {
            self.sample(&next, &strands, now);
        }
        next
    }

    #[cold]
    #[inline(never)]
    fn next_slow(&self, now: u64) -> Option<Ready> {
        self.pop_from(self.lock_and_unpack(), now)
    }

    #[inline(always)]
    fn exchange_in(&self, mut strands: SpinGuard<'_, Levels>, strand: Ready, now: u64) -> Ready {
        match strands.rotate(strand) {
            Ok(next) => self.exchanged(strands, next, now),
            Err(strand) => self.exchange_mixed(strands, strand, now),
        }
    }

    /// Exchanges a strand where several levels have strands; see [`pop_mixed`](End::pop_mixed).
    #[cold]
    #[inline(never)]
    fn exchange_mixed(&self, mut strands: SpinGuard<'_, Levels>, strand: Ready, now: u64) -> Ready {
        let next = strands.exchange(strand);
        self.exchanged(strands, next, now)
    }

    #[inline(always)]
    fn exchanged(&self, strands: SpinGuard<'_, Levels>, next: Ready, now: u64) -> Ready {
        strands.prefetch_head();
        if now != self.sampled.get() {
            self.sample(&next, &strands, now);
        }
        next
    }

    #[cold]
    #[inline(never)]
    fn exchange_slow(&self, strand: Ready, now: u64) -> Ready {
        self.exchange_in(self.lock_and_unpack(), strand, now)
    }

    fn lock_and_unpack(&self) -> SpinGuard<'_, Levels> {
        let mut strands = self.queue.own.strands.lock();
        if !self.queue.inbox.is_empty() {
            self.unpack_from(&self.queue, &mut strands);
        }
        strands
    }

    /// Notes how long `strand` has waited, and since when the next one waits. Called once for each
    /// reading of the clock: more often it would say nothing new.
    fn sample(&self, strand: &Ready, strands: &Levels, now: u64) {
        self.sampled.set(now);
        let waited = now.saturating_sub(strand.ready_at());
        self.wait.set(average(self.wait.get(), waited));
        self.queue.own.note(strands);
    }

    /// Copies the state of the queue to the bulletin.
    fn advertise(&self) {
        let queue = &*self.queue;
        let len = queue.own.len.load(Relaxed);
        self.advertised.set(len > 0);
        queue.bulletin.head_since.store(queue.own.head_since.load(Relaxed), Relaxed);
        queue.bulletin.wait.store(self.wait.get(), Relaxed);
        queue.bulletin.len.store(len, Relaxed);
    }

    /// Writes the bulletin if it says that the queue is empty: no processor would notice that the
    /// queue is neglected.
    #[inline]
    fn advertise_something(&self) {
        if !self.advertised.get() {
            self.advertise();
        }
    }

    /// Returns the cache that the processor runs under, and writes it to the bulletin if it has
    /// changed.
    fn note_cache(&self) -> CacheId {
        let cache = self.placement.cache();
        let noted = &self.queue.bulletin.cache;
        if noted.load(Relaxed) != cache.0 {
            noted.store(cache.0, Relaxed);
        }
        cache
    }

    /// Returns a station to look at: any of those under this cache, seldom another.
    fn pick(&self) -> Option<usize> {
        let station = self.dice.other(self.station, self.shared.queues.used())?;
        let queue = self.shared.queues.get(station)?;
        // A vacant station belongs to no cache, and may hold strands that arrived late.
        let near = queue.cache() == self.note_cache() || !queue.is_taken();
        (near || self.dice.below(256) < REMOTE_LOOKS).then_some(station)
    }

    /// Rescues or balances another queue, if that is due.
    fn look_at(&self, station: usize, now: u64) {
        let Some(other) = self.shared.queues.get(station) else { return };
        let mine = self.wait.get();
        let limit = (mine * RESCUE_BIAS).max(self.rescue_floor);
        let bulletin = &other.bulletin;
        let len = bulletin.len.load(Relaxed);
        let waiting = now.saturating_sub(bulletin.head_since.load(Relaxed));
        if len > 0 && average(bulletin.wait.load(Relaxed), waiting) > limit {
            self.rescue(station, other, now, limit);
        } else if len > 0 {
            self.balance(other, len as usize);
        }
        if other.inbox.are_older_than(limit, now) {
            self.take_arrivals(other, Cause::Rescue);
        }
    }

    /// Takes everything from a queue whose processor does not get to it.
    #[cold]
    fn rescue(&self, station: usize, other: &Queue, now: u64, limit: u64) {
        // The bulletin may be out of date, and then makes the queue look older than it is.
        let waiting = now.saturating_sub(other.own.head_since.load(Relaxed));
        let len = other.own.len.load(Relaxed) as usize;
        if len == 0 || waiting <= limit || self.take(other, Effort::Polite, Cause::Rescue, |strands| strands.take_all())
        {
            return;
        }
        if other.own.strands.is_held() {
            self.held.set(Some(station));
            self.abstain(len);
        }
    }

    /// Naps, if strands here would otherwise get ahead of the `len` strands behind a held lock. The processor's
    /// part of these is what it had to run if all other processors could take the same number.
    fn abstain(&self, len: usize) {
        let my_len = self.queue.own.len.load(Relaxed) as usize;
        let others = self.shared.queues.used() - 1;
        self.debt.set(self.debt.get() + len.div_ceil(others));
        if self.debt.get() >= LOOKS_PER_NAP * (my_len + 1) {
            self.debt.set(0);
            nap();
        }
    }

    /// Takes half of the difference in length, when the two queues have differed for a while, or at once if no
    /// strand waits here. A strand that yields to itself waits for no time. Its processor is as good as idle.
    fn balance(&self, other: &Queue, their_len: usize) {
        let my_len = self.queue.own.len.load(Relaxed) as usize;
        let (mine, theirs) = (self.wait.get(), other.bulletin.wait.load(Relaxed));
        if theirs <= mine + mine / 4 || their_len <= my_len + my_len / 4 + 1 {
            self.imbalance.set(0);
            return;
        }
        self.imbalance.set(self.imbalance.get() + 1);
        if self.imbalance.get() >= BALANCE_LOOKS || (my_len == 0 && mine == 0) {
            self.imbalance.set(0);
            let share = ((their_len - my_len) / 2).min(LARGEST_SHARE);
            self.take(other, Effort::Polite, Cause::Steal, |strands| strands.take_some(share));
        }
    }

    /// Takes half of another queue, for a processor that has nothing to run. Returns whether the
    /// processor's own queue has strands now.
    fn share(&self, other: &Queue, now: u64, effort: Effort) -> bool {
        let mut found = false;
        let takes_any = effort == Effort::Greedy || !other.is_taken();
        if other.inbox.are_older_than(self.young, now) || (takes_any && !other.inbox.is_empty()) {
            found = self.take_arrivals(other, Cause::Steal);
        }
        let len = other.own.len.load(Relaxed) as usize;
        let young = now.saturating_sub(other.own.head_since.load(Relaxed)) <= self.young;
        if len == 0 || (len == 1 && young && effort == Effort::Polite) {
            return found;
        }
        let share = len.div_ceil(2).min(LARGEST_SHARE);
        self.take(other, effort, Cause::Steal, |strands| strands.take_some(share)) || found
    }

    /// Moves the arrivals of `queue`, which may be another processor's, behind this processor's own
    /// `strands`. Returns whether there are strands now.
    #[cold]
    fn unpack_from(&self, queue: &Queue, strands: &mut Levels) -> bool {
        queue.unpack(strands);
        self.queue.own.note(strands);
        self.advertise_something();
        !strands.is_empty()
    }

    /// Moves the arrivals of another processor's queue behind this processor's own strands. Returns
    /// whether there are strands now.
    fn take_arrivals(&self, other: &Queue, cause: Cause) -> bool {
        let mut strands = self.queue.own.strands.lock();
        let before = strands.len();
        let found = self.unpack_from(other, &mut strands);
        self.placement.count(cause, strands.len() - before);
        found
    }

    /// Moves strands from another queue to the front of this processor's own, because they are the
    /// older ones. Returns whether there were any.
    fn take(&self, other: &Queue, effort: Effort, cause: Cause, which: impl FnOnce(&mut Levels) -> Levels) -> bool {
        let mut theirs = match effort {
            Effort::Greedy => other.own.strands.lock(),
            Effort::Polite => match other.own.strands.try_lock() {
                Some(theirs) => theirs,
                None => return false,
            },
        };
        let taken = which(&mut theirs);
        other.own.note(&theirs);
        drop(theirs);
        let any = !taken.is_empty();
        self.placement.count(cause, taken.len());
        let mut mine = self.queue.own.strands.lock();
        mine.prepend(taken);
        self.queue.own.note(&mine);
        self.advertise_something();
        any
    }
}

/// Returns the moving average `old` after one more `sample`.
fn average(old: u64, sample: u64) -> u64 {
    old / SAMPLE_PARTS * (SAMPLE_PARTS - NEW_SAMPLE) + sample / SAMPLE_PARTS * NEW_SAMPLE
}
