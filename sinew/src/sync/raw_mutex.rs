//! The lock inside of a [`Mutex`](super::Mutex): a word, and a queue for those who
//! have to wait.
//!
//! ```text
//!   0 --lock--> LOCKED --unlock--> 0                     nobody waits
//!
//!   LOCKED --lock--> LOCKED|QUEUED                       enters the queue
//!   LOCKED|QUEUED --unlock--> WOKEN (|QUEUED)            one is told to try again
//!   LOCKED|QUEUED --unlock--> LOCKED (|QUEUED)           handed over to one
//!   ..WOKEN.. --lock--> LOCKED|..WOKEN..                 another was faster
//!   LOCKED|..WOKEN.. --unlock--> ..WOKEN..               one is on its way already
//!   WOKEN.. --the woken one locks--> LOCKED..
//!   LOCKED|WOKEN.. --the woken one queues--> LOCKED|QUEUED
//! ```
//!
//! LOCKED is changed by whoever takes or has the lock. QUEUED is changed under the
//! queue's lock. WOKEN is set by the one who unlocks, under the queue's lock, and
//! cleared by the one who was woken. So whoever has both the lock and the queue's
//! lock, and sees no WOKEN, is alone with the word.

use super::Policy;
use crate::base::atomic::{Acquire, AtomicU32, Relaxed, Release, const_fn, spin_loop};
use crate::base::clock;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const WOKEN: u32 = 4;

/// Who has waited longer than this gets the lock handed over, instead of being told
/// to try again. The figure is Go's; a hand-over costs a switch for each use of the
/// lock, so it should be rare.
const STARVED_US: u64 = 1_000;

/// How often a spinning lock looks before it blocks: about 2 µs, twice what it costs
/// to block and be woken.
const SPINS: u32 = 200;

pub(crate) struct RawMutex {
    word: AtomicU32,
    policy: Policy,
    queue: SpinLock<Queue<Turn>>,
}

/// One who did not get the lock at once.
struct Contender {
    /// How often it still looks before it blocks.
    spins: u32,
    /// Since when it waits, in ticks.
    since: Option<u64>,
    /// WOKEN, if that bit is its own to clear.
    woken: u32,
}

/// The note of one who waits.
struct Turn {
    /// Since when, in ticks.
    since: u64,
    /// Whether the lock has been handed over.
    granted: bool,
}

impl RawMutex {
    const_fn! {
        pub(crate) fn new(policy: Policy) -> Self {
            RawMutex { word: AtomicU32::new(0), policy, queue: SpinLock::new(Queue::new()) }
        }
    }

    /// `0 -> LOCKED`, or as above.
    #[inline(always)]
    pub(crate) fn lock(&self) {
        // Acquire pairs with the Release in `unlock`.
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            let _ = self.lock_slow(Limit::NONE);
        }
    }

    /// As [`lock`](RawMutex::lock), within `limit`. Whether the caller has the lock.
    pub(crate) fn lock_within(&self, limit: Limit) -> bool {
        self.try_lock() || self.lock_slow(limit)
    }

    pub(crate) fn try_lock(&self) -> bool {
        let free = |word| (word & LOCKED == 0).then_some(word | LOCKED);
        // Acquire pairs with the Release in `unlock`.
        self.word.fetch_update(Acquire, Relaxed, free).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, limit: Limit) -> bool {
        let mut contender = self.contender();
        while let Some((queue, place, turn)) = self.contend(&mut contender) {
            match wait_in(&self.queue, queue, |queue| queue, place, turn, limit, || ()) {
                (Outcome::Told, turn) if turn.granted => return true,
                (Outcome::Told, _) => contender.woken = WOKEN,
                // QUEUED may be out of date now: the next `unlock` finds out.
                (Outcome::TimedOut | Outcome::Cancelled, _) => return false,
            }
        }
        true
    }

    /// As [`lock`](RawMutex::lock), for a task. If it is dropped, the lock that it was
    /// given, or told to try, is for the next.
    pub(crate) async fn lock_async(&self) {
        budget::spend_async().await;
        if self.try_lock() {
            return;
        }
        let mut contender = self.contender();
        while let Some((queue, place, turn)) = self.contend(&mut contender) {
            let abandoned = |is_told, turn: Turn| match (is_told, turn.granted) {
                (true, true) => self.unlock(),
                (true, false) => self.pass_on(),
                (false, _) => {}
            };
            if wait_in_async(&self.queue, queue, |queue| queue, place, turn, || (), abandoned).await.granted {
                return;
            }
            contender.woken = WOKEN;
        }
    }

    fn contender(&self) -> Contender {
        Contender { spins: if self.policy == Policy::Spin { SPINS } else { 0 }, since: None, woken: 0 }
    }

    /// Takes the lock if it is free; else gives the queue's lock, under which the caller may
    /// enter, and where.
    #[inline]
    fn contend(&self, contender: &mut Contender) -> Option<(SpinGuard<'_, Queue<Turn>>, End, Turn)> {
        let woken = contender.woken;
        loop {
            let word = self.word.load(Relaxed);
            if word & LOCKED == 0 {
                // Acquire pairs with the Release in `unlock`.
                if self.word.compare_exchange_weak(word, (word | LOCKED) & !woken, Acquire, Relaxed).is_ok() {
                    return None;
                }
                continue;
            }
            if contender.spins > 0 {
                contender.spins -= 1;
                spin_loop();
                continue;
            }
            let queue = self.queue.lock();
            let still_locked = |word| (word & LOCKED != 0).then_some((word | QUEUED) & !woken);
            if self.word.fetch_update(Relaxed, Relaxed, still_locked).is_err() {
                continue;
            }
            let place = if contender.since.is_none() { End::Back } else { End::Front };
            let turn = Turn { since: *contender.since.get_or_insert_with(clock::cycles), granted: false };
            return Some((queue, place, turn));
        }
    }

    /// `LOCKED|..WOKEN.. -> LOCKED|.. | ..WOKEN.. -> as after an unlock`. By one who was
    /// woken and does not want the lock any more: whoever has it wakes the next, and if
    /// nobody has it this does.
    #[cold]
    fn pass_on(&self) {
        let next = |word| Some(if word & LOCKED == 0 { (word | LOCKED) & !WOKEN } else { word & !WOKEN });
        // Acquire as in `lock`: what is passed on is what others did under the lock.
        let before = self.word.fetch_update(Acquire, Relaxed, next).unwrap_or_else(|word| word);
        if before & LOCKED == 0 {
            self.unlock();
        }
    }

    /// `LOCKED -> 0`, or as above. By whoever has the lock.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        // Release pairs with the Acquire in `lock`.
        if self.word.compare_exchange(LOCKED, 0, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        loop {
            let word = self.word.load(Relaxed);
            if word & QUEUED != 0 && word & WOKEN == 0 {
                break;
            }
            // Release as in `unlock`.
            if self.word.compare_exchange_weak(word, word & !LOCKED, Release, Relaxed).is_ok() {
                return;
            }
        }
        let mut queue = self.queue.lock();
        let told = queue.pop();
        let queued = if queue.is_empty() { 0 } else { QUEUED };
        let Some(mut told) = told else {
            // Release as in `unlock`.
            self.word.store(0, Release);
            return;
        };
        let waited = clock::cycles().saturating_sub(told.note().since);
        if self.policy == Policy::HandOver || waited > clock::cycles_in_us(STARVED_US) {
            told.note().granted = true;
            // Relaxed: the signal passes on what was done under the lock.
            self.word.store(LOCKED | queued, Relaxed);
        } else {
            // Release as in `unlock`.
            self.word.store(WOKEN | queued, Release);
        }
        drop(queue);
        drop(told);
    }
}
