//! A hierarchical timer wheel: arming and cancelling take constant time and no
//! allocation, because the nodes are the callers' own [`Timer`]s.
//!
//! Time is a `u64` of nanoseconds since an epoch of the caller's, cut into
//! ticks of 2^16 ns. Level 0 has one slot for each of the 64 ticks around the
//! current one, a slot of level 1 covers 64 ticks, and so on. A timer sits at
//! the level of the highest base-64 digit in which its tick differs from the
//! current tick, so everything at a level comes up before anything at the
//! level above, and the next slot is found with two bit operations. When the
//! start of a slot above level 0 is reached, its timers *cascade*: each is put
//! again, at a lower level. The top level wraps round; a deadline beyond its
//! last slot waits there and is put again when that slot comes up.
//!
//! Ticks only sort the timers. Whether one is due is decided by its deadline
//! in nanoseconds, so that none fires early, or later than the first
//! [`Wheel::advance`] at or past its deadline.
//!
//! Nothing here is thread-safe: a wheel and every timer armed in it belong to
//! one lock, which the caller holds.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;

/// A tick is 2^16 ns = 65.5 µs, near the kernel's default timer slack of
/// 50 µs, below which sleeping is not precise anyway. Unmeasured.
const TICK_BITS: u32 = 16;

/// 64 slots a level, so that a level's occupancy is one machine word.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// Six levels of 64 slots span 2^36 ticks = 52 days; deadlines further away
/// cost one more cascade for each span.
const LEVELS: usize = 6;

const TOP: usize = LEVELS - 1;

/// `Timer::place` of a timer that is not armed.
const UNARMED: u16 = u16::MAX;

/// `Timer::place` of a timer armed with [`NEVER_NS`]: armed, in no slot.
const NEVER: u16 = UNARMED - 1;

/// The deadline that never comes. A timer armed with it can be cancelled, does
/// not fire even at this very time, and disturbs nobody's sleep.
const NEVER_NS: u64 = u64::MAX;

const fn tick_of(ns: u64) -> u64 {
    ns >> TICK_BITS
}

/// A timer that a [`Wheel`] can link, carrying a payload that says what to do
/// when it fires.
///
/// Every cell is written under the wheel's lock only.
pub(crate) struct Timer<T> {
    /// Neighbours in the ring of the timer's slot; meaningful while `place` is
    /// a slot.
    prev: Cell<*const Timer<T>>,
    next: Cell<*const Timer<T>>,
    /// Meaningful while armed.
    deadline_ns: Cell<u64>,
    /// The slot that links this timer, as `level * SLOTS + slot`, or
    /// [`NEVER`], or [`UNARMED`].
    place: Cell<u16>,
    payload: T,
    _pin: PhantomPinned,
}

// SAFETY: the links of an armed timer are not ours to move, but `Wheel::arm`'s
// contract forbids moving it then; an unarmed timer is only its payload.
unsafe impl<T: Send> Send for Timer<T> {}

impl<T: Copy> Timer<T> {
    /// A timer that is not armed.
    pub(crate) fn new(payload: T) -> Timer<T> {
        Timer {
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            deadline_ns: Cell::new(NEVER_NS),
            place: Cell::new(UNARMED),
            payload,
            _pin: PhantomPinned,
        }
    }

    /// Whether the timer waits in a wheel. Meaningful only under the wheel's
    /// lock.
    #[cfg(all(test, not(sinew_loom)))]
    pub(crate) fn is_armed(&self) -> bool {
        self.place.get() != UNARMED
    }
}

/// The wheel; see the module's documentation for how it turns.
///
/// Between calls:
/// 1. a timer in a slot of level `L` has the same digits as `current_tick`
///    above digit `L`, and a greater digit `L` (level 0: or an equal one);
/// 2. at the top level, where slots wrap round, a slot is 1 to 63 slots ahead
///    of the current one;
/// 3. `occupied[L]` has bit `s` set exactly when slot `s` of level `L` has a
///    timer;
/// 4. a timer's `place` names the slot whose ring it is in.
pub(crate) struct Wheel<T: Copy> {
    /// The latest time seen; never goes back.
    now_ns: u64,
    /// The tick up to which slots have been emptied: that of `now_ns`, except
    /// inside `advance` or after its `fire` panicked, when it is earlier.
    current_tick: u64,
    /// Not later than any deadline in a slot, and no sleeper who heeds `arm`'s
    /// answers sleeps past it: only those answers lower it, and what raises it
    /// shortens nobody's sleep. Cancelling may leave it too early.
    earliest_ns: Cell<u64>,
    armed: usize,
    occupied: [u64; LEVELS],
    /// The first timer of each slot's ring (its `prev` is the last), or null.
    slots: [[*const Timer<T>; SLOTS]; LEVELS],
}

// SAFETY: the pointers lead to timers whose owners promised, when they armed
// them, to touch them only under the lock that guards this wheel; so they may
// be touched from whichever thread holds it. Payloads cross threads: `T: Send`.
unsafe impl<T: Copy + Send> Send for Wheel<T> {}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that stands at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Wheel<T> {
        Wheel {
            now_ns,
            current_tick: tick_of(now_ns),
            earliest_ns: Cell::new(NEVER_NS),
            armed: 0,
            occupied: [0; LEVELS],
            slots: [[ptr::null(); SLOTS]; LEVELS],
        }
    }

    /// How many timers are armed.
    #[cfg(all(test, not(sinew_loom)))]
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    /// Whether no timer is armed.
    #[cfg(all(test, not(sinew_loom)))]
    pub(crate) fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Arms `timer`, or moves it to the new deadline if it is armed already.
    ///
    /// A deadline that has passed is due at the next [`advance`]; `u64::MAX`
    /// never is.
    ///
    /// Returns true when the timer is now the earliest known: a sleeper that
    /// asked [`next_deadline_ns`] before must be told this deadline, or be
    /// made to ask again. False is a promise that whoever asked before wakes
    /// up in time.
    ///
    /// [`advance`]: Wheel::advance
    /// [`next_deadline_ns`]: Wheel::next_deadline_ns
    ///
    /// # Safety
    ///
    /// Until the timer has fired or been cancelled:
    /// - it is neither dropped nor moved (dropping does not cancel);
    /// - it is passed to this wheel only, not to another;
    /// - every access to it, `is_armed` included, happens under the lock that
    ///   guards this wheel.
    #[must_use = "an earlier deadline must be made known to whoever sleeps"]
    pub(crate) unsafe fn arm(&mut self, timer: Pin<&Timer<T>>, deadline_ns: u64) -> bool {
        let timer = timer.get_ref();
        self.disarm(timer);
        timer.deadline_ns.set(deadline_ns);
        self.armed += 1;
        if deadline_ns == NEVER_NS {
            timer.place.set(NEVER);
            return false;
        }
        self.put(timer);
        let earlier = deadline_ns < self.earliest_ns.get();
        if earlier {
            self.earliest_ns.set(deadline_ns);
        }
        earlier
    }

    /// Takes `timer` out; false when it was not armed, because it never was or
    /// because it has fired.
    ///
    /// Nobody's sleep is shortened or lengthened by this: whoever sleeps until
    /// the cancelled deadline wakes up once for nothing.
    pub(crate) fn cancel(&mut self, timer: Pin<&Timer<T>>) -> bool {
        self.disarm(timer.get_ref())
    }

    /// Turns the wheel to `now_ns` and calls `fire` with the payload of each
    /// timer whose deadline is at or before it.
    ///
    /// A timer is unlinked before its payload is passed on and not touched
    /// afterwards, so `fire` may free it. Timers fire in order of their
    /// deadlines' ticks, within a tick in no promised order; a deadline that
    /// had passed when it was armed counts as one in the tick of that time.
    /// A `now_ns` before the latest one seen counts as that one. If `fire`
    /// panics, the remaining due timers stay armed and fire at the next call.
    pub(crate) fn advance(&mut self, now_ns: u64, mut fire: impl FnMut(T)) {
        self.now_ns = self.now_ns.max(now_ns);
        let now_tick = tick_of(self.now_ns);
        while let Some((level, slot, start_tick)) = self.next_slot() {
            if start_tick > now_tick {
                break;
            }
            self.current_tick = start_tick;
            if level > 0 {
                self.cascade(level, slot);
                continue;
            }
            self.fire_due(slot, &mut fire);
            if start_tick == now_tick {
                break;
            }
        }
        // Keeps invariants 1 and 2: every occupied slot starts after this tick,
        // or is the one of this tick at level 0.
        self.current_tick = now_tick;
        if self.earliest_ns.get() <= self.now_ns {
            self.refresh_earliest();
        }
    }

    /// When to call [`advance`] next; `None` when nothing is ever due.
    ///
    /// Never later than the earliest deadline. If the next slot is one of
    /// level 0, this is the exact earliest deadline; above, it is the time at
    /// which the slot starts, where `advance` cascades it and fires nothing
    /// unless a deadline is exactly there. A sleeper that sleeps until this
    /// time and then advances never spins: after `advance(now)`, this is later
    /// than `now` until another timer is armed, and each timer makes it wake
    /// at most once for each level, and once for every 50 days.
    ///
    /// Takes time in proportion to the timers that share the earliest tick.
    ///
    /// [`advance`]: Wheel::advance
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.refresh_earliest();
        Some(self.earliest_ns.get()).filter(|&ns| ns != NEVER_NS)
    }

    /// Brings `earliest_ns` to what `next_deadline_ns` answers.
    fn refresh_earliest(&self) {
        self.earliest_ns.set(match self.next_slot() {
            None => NEVER_NS,
            Some((0, slot, _)) => self.earliest_in(slot),
            Some((_, _, start_tick)) => start_tick << TICK_BITS,
        });
    }

    /// The occupied slot that comes up first: its level, its number and the
    /// tick at which it starts.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let shift = SLOT_BITS * level as u32;
        let current = self.current_tick >> shift;
        // Below the top no slot behind the current one is occupied, so counting
        // ahead from the current slot never wraps there.
        let ahead = self.occupied[level].rotate_right(current as u32 % SLOTS as u32).trailing_zeros();
        let position = current + u64::from(ahead);
        Some((level, position as usize % SLOTS, position << shift))
    }

    /// Where a deadline belongs, as seen from `current_tick`.
    fn place_for(&self, deadline_ns: u64) -> (usize, usize) {
        let tick = tick_of(deadline_ns).max(self.current_tick);
        let differing = tick ^ self.current_tick;
        // `| 1`: equal ticks belong to level 0, as if the last bit differed.
        let level = ((differing | 1).ilog2() / SLOT_BITS) as usize;
        if level < TOP {
            let position = tick >> (SLOT_BITS * level as u32);
            (level, position as usize % SLOTS)
        } else {
            let shift = SLOT_BITS * TOP as u32;
            let current = self.current_tick >> shift;
            let last = current + SLOTS as u64 - 1;
            (TOP, (tick >> shift).min(last) as usize % SLOTS)
        }
    }

    /// Links `timer`, which is in no slot, at the end of its deadline's slot.
    fn put(&mut self, timer: &Timer<T>) {
        let (level, slot) = self.place_for(timer.deadline_ns.get());
        timer.place.set((level * SLOTS + slot) as u16);
        let head = &mut self.slots[level][slot];
        if head.is_null() {
            *head = timer;
            timer.prev.set(timer);
            timer.next.set(timer);
            self.occupied[level] |= 1 << slot;
            return;
        }
        let first = *head;
        // SAFETY: a slot links armed timers only (invariant 4), and `arm`'s
        // contract keeps those alive and in place, accessed under our lock.
        // Only cells are written, through shared references.
        unsafe {
            let last = (*first).prev.replace(timer);
            (*last).next.set(timer);
            timer.prev.set(last);
            timer.next.set(first);
        }
    }

    /// Takes an armed timer out of its slot, if it is in one. It is the
    /// caller's afterwards: nothing in the wheel points to it.
    fn disarm(&mut self, timer: &Timer<T>) -> bool {
        match timer.place.replace(UNARMED) {
            UNARMED => return false,
            NEVER => {}
            place => self.unlink(timer, place),
        }
        self.armed -= 1;
        true
    }

    fn unlink(&mut self, timer: &Timer<T>, place: u16) {
        let (level, slot) = (place as usize / SLOTS, place as usize % SLOTS);
        let (prev, next) = (timer.prev.get(), timer.next.get());
        if ptr::eq(next, timer) {
            self.slots[level][slot] = ptr::null();
            self.occupied[level] &= !(1 << slot);
            return;
        }
        // SAFETY: `timer` was in this slot's ring (invariant 4), so both
        // neighbours are armed timers, which `arm`'s contract keeps alive.
        unsafe {
            (*prev).next.set(next);
            (*next).prev.set(prev);
        }
        if ptr::eq(self.slots[level][slot], timer) {
            self.slots[level][slot] = next;
        }
    }

    /// Puts every timer of a slot above level 0 again. The slot has just become
    /// the current one, so none comes back to it.
    fn cascade(&mut self, level: usize, slot: usize) {
        let first = std::mem::replace(&mut self.slots[level][slot], ptr::null());
        self.occupied[level] &= !(1 << slot);
        let mut timer = first;
        loop {
            // SAFETY: the ring of a slot holds armed timers, alive by `arm`'s
            // contract. `next` is read before the timer is put elsewhere; the
            // ring's remaining `next` links are not written by that.
            let (this, next) = unsafe { (&*timer, (*timer).next.get()) };
            self.put(this);
            if ptr::eq(next, first) {
                break;
            }
            timer = next;
        }
    }

    /// Fires the timers of the current tick's slot, which is occupied, that are
    /// due by `now_ns`: all of them, if the tick is over.
    fn fire_due(&mut self, slot: usize, fire: &mut impl FnMut(T)) {
        if self.now_ns < self.earliest_ns.get() {
            return;
        }
        let first = self.slots[0][slot];
        // SAFETY: the slot is occupied, and a slot links armed timers only, which
        // `arm`'s contract keeps alive.
        let last = unsafe { (*first).prev.get() };
        let mut timer = first;
        loop {
            // SAFETY: a timer of the ring that the walk has not reached is still
            // armed, whatever `fire` does: to cancel it takes this wheel, which
            // is borrowed here. So it is alive.
            let (next, deadline_ns) = unsafe { ((*timer).next.get(), (*timer).deadline_ns.get()) };
            let is_last = ptr::eq(timer, last);
            if deadline_ns <= self.now_ns {
                // SAFETY: as above; the walk does not come back to this timer.
                unsafe { self.fire_one(timer, fire) };
            }
            if is_last {
                break;
            }
            timer = next;
        }
    }

    /// Unlinks a timer and passes its payload on.
    ///
    /// # Safety
    ///
    /// `timer` is in a slot of this wheel. It may be gone afterwards.
    unsafe fn fire_one(&mut self, timer: *const Timer<T>, fire: &mut impl FnMut(T)) {
        let payload = {
            // SAFETY: alive, because it is armed, until `fire` is called; the
            // reference ends before.
            let timer = unsafe { &*timer };
            self.disarm(timer);
            timer.payload
        };
        fire(payload);
    }

    /// The earliest deadline in an occupied slot of level 0.
    fn earliest_in(&self, slot: usize) -> u64 {
        let first = self.slots[0][slot];
        let mut earliest_ns = NEVER_NS;
        let mut timer = first;
        loop {
            // SAFETY: the ring of a slot holds armed timers, alive by `arm`'s
            // contract.
            let (deadline_ns, next) = unsafe { ((*timer).deadline_ns.get(), (*timer).next.get()) };
            earliest_ns = earliest_ns.min(deadline_ns);
            if ptr::eq(next, first) {
                return earliest_ns;
            }
            timer = next;
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests;
