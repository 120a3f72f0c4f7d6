//! The lock inside a [`Mutex`](super::Mutex): a word, and a queue of waiters.
//!
//! ```text
//!   0 --lock--> LOCKED --unlock--> 0                      nobody waits
//!
//!   LOCKED.. --queue--> LOCKED|QUEUED..                   a newcomer enters the queue
//!   LOCKED|QUEUED --unlock--> WOKEN (|QUEUED)             the first waiter is to try again
//!   LOCKED|QUEUED --unlock--> LOCKED (|QUEUED)            the first waiter gets the lock
//!   LOCKED|QUEUED --unlock--> 0                           all waiters have given up
//!
//!   WOKEN.. --lock--> LOCKED|WOKEN..                      a newcomer was faster
//!   LOCKED|WOKEN.. --unlock--> WOKEN..                    the woken one is on its way
//!   WOKEN.. --the woken one locks--> LOCKED..
//!   LOCKED|WOKEN.. --the woken one queues--> LOCKED|QUEUED
//!   LOCKED|WOKEN.. --the woken one leaves--> LOCKED..     the holder wakes the next
//!   WOKEN.. --the woken one leaves--> LOCKED..            and unlocks, which wakes the next
//! ```
//!
//! `..` stands for the bits that do not change. Only a future that is dropped leaves when it
//! has been woken.
//!
//! LOCKED is changed by the caller that takes the lock and by its holder. QUEUED is changed
//! under the queue's lock. WOKEN is set under the queue's lock by the holder that unlocks, and
//! cleared by the waiter that was woken. So a holder that also has the queue's lock, and sees
//! no WOKEN, is the only one that changes the word.

use super::Policy;
use crate::base::atomic::{Acquire, AtomicU32, Relaxed, Release, const_fn, spin_loop};
use crate::base::clock;
use crate::base::describe::Entry;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget::spend_async;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Owner, Reason, Why};
use std::mem::offset_of;

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const WOKEN: u32 = 4;

/// A waiter that has waited longer than this gets the lock handed over, instead of being told
/// to try again. The figure is Go's. A hand-over costs a switch for each use of the lock, so it
/// should be rare.
const STARVED_US: u64 = 1_000;

/// The number of looks before a caller of a spinning lock blocks: about 2 µs, twice what it
/// costs a fibre to block and to run again.
const SPINS: u32 = 200;

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("mutex.word", offset_of!(RawMutex, word)),
    Entry::number("mutex.locked", LOCKED as usize),
    Entry::number("mutex.owner", offset_of!(RawMutex, owner)),
];

pub(crate) struct RawMutex {
    word: AtomicU32,
    owner: Owner,
    policy: Policy,
    queue: SpinLock<Queue<Turn>>,
}

/// A caller that did not get the lock at once.
struct Contender {
    /// The number of looks that are left before it blocks.
    spins: u32,
    /// When it first entered the queue, in cycles.
    since: Option<u64>,
    /// WOKEN, if that bit is its own to clear; else 0.
    woken: u32,
}

/// The note of a waiter.
struct Turn {
    /// When it first entered the queue, in cycles.
    since: u64,
    /// Whether the lock has been handed over.
    granted: bool,
}

impl RawMutex {
    const_fn! {
        pub(crate) fn new(policy: Policy) -> Self {
            RawMutex { word: AtomicU32::new(0), owner: Owner::nobody(), policy, queue: SpinLock::new(Queue::new()) }
        }
    }

    /// `0 -> LOCKED`, or one of the other arrows above.
    #[inline(always)]
    pub(crate) fn lock(&self) {
        // Acquire pairs with the Release in `unlock`.
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            let _ = self.lock_slow(Limit::NONE);
        }
        self.owner.is_caller();
    }

    /// As [`lock`](RawMutex::lock), within `limit`. Returns whether the caller has the lock.
    pub(crate) fn lock_within(&self, limit: Limit) -> bool {
        if self.try_lock() {
            return true;
        }
        let is_locked = self.lock_slow(limit);
        if is_locked {
            self.owner.is_caller();
        }
        is_locked
    }

    /// `0 -> LOCKED | WOKEN.. -> LOCKED|WOKEN..`. Returns whether the caller has the lock.
    pub(crate) fn try_lock(&self) -> bool {
        let free = |word| (word & LOCKED == 0).then_some(word | LOCKED);
        // Acquire pairs with the Release in `unlock`.
        let is_locked = self.word.fetch_update(Acquire, Relaxed, free).is_ok();
        if is_locked {
            self.owner.is_caller();
        }
        is_locked
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, limit: Limit) -> bool {
        let mut contender = self.contender();
        while let Some((queue, place, turn)) = self.contend(&mut contender) {
            let place = place.of(Why::at(Reason::Mutex, self));
            match wait_in(&self.queue, queue, |queue| queue, place, turn, limit, || ()) {
                (Outcome::Told, turn) if turn.granted => return true,
                (Outcome::Told, _) => contender.woken = WOKEN,
                // QUEUED may be set while the queue is empty: the next `unlock` clears it.
                (Outcome::TimedOut | Outcome::Cancelled, _) => return false,
            }
        }
        true
    }

    /// As [`lock`](RawMutex::lock), for a task. A future that is dropped passes on the lock
    /// that it was given, or was told to try.
    pub(crate) async fn lock_async(&self) {
        spend_async().await;
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
            let place = place.of(Why::at(Reason::Mutex, self));
            if wait_in_async(&self.queue, queue, |queue| queue, place, turn, || (), abandoned).await.granted {
                break;
            }
            contender.woken = WOKEN;
        }
        self.owner.is_caller();
    }

    fn contender(&self) -> Contender {
        Contender { spins: if self.policy == Policy::Spin { SPINS } else { 0 }, since: None, woken: 0 }
    }

    /// Takes the lock if it is free. Else returns the queue's lock, under which the caller may
    /// enter, the end to enter at, and the note.
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

    /// `LOCKED|WOKEN.. -> LOCKED..` | `WOKEN.. -> LOCKED..`, then `unlock`. By a waiter that was
    /// woken and does not want the lock any more. The holder wakes the next waiter; if there is
    /// no holder, this does.
    #[cold]
    fn pass_on(&self) {
        let next = |word| Some(if word & LOCKED == 0 { (word | LOCKED) & !WOKEN } else { word & !WOKEN });
        // Acquire as in `lock`: the `unlock` below passes on what earlier holders did.
        let before = self.word.fetch_update(Acquire, Relaxed, next).unwrap_or_else(|word| word);
        if before & LOCKED == 0 {
            self.unlock();
        }
    }

    /// `LOCKED -> 0`, or one of the other arrows above. By the holder.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        self.owner.is_nobody();
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
