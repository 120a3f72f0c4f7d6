//! A hierarchical timer wheel. Arming and cancelling take constant time and no allocation,
//! because the nodes are the callers' own [`Timer`]s. The essay of [`time`](crate::time) says
//! how the wheel turns.
//!
//! Nothing here is thread-safe: a wheel and all timers that are armed in it belong to one lock,
//! which the caller holds.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ops::Deref;
use std::ptr::NonNull;

/// A step is 2^16 ns = 65.5 µs, near the kernel's default timer slack of 50 µs: a sleep is not
/// more precise than that. Unmeasured.
const STEP_BITS: u32 = 16;

/// 64 slots for each level: one machine word says which slots of a level are occupied.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// Six levels of 64 slots span 2^36 steps = 52 days. A deadline further away costs one more
/// cascade for each span.
const LEVELS: usize = 6;

const TOP: usize = LEVELS - 1;

/// `Timer::place` of a timer that is not armed.
const UNARMED: u16 = u16::MAX;

/// `Timer::place` of a timer armed with [`NEVER_NS`]: armed, in no slot.
const NEVER: u16 = UNARMED - 1;

/// The deadline that never comes. A timer armed with it can be cancelled. It does not fire, not
/// even at this time, and wakes no sleeper.
const NEVER_NS: u64 = u64::MAX;

const fn step_of(ns: u64) -> u64 {
    ns >> STEP_BITS
}

/// A timer that a [`Wheel`] links. Its payload says what to do when it fires.
///
/// All cells are read and written under the wheel's lock.
pub(crate) struct Timer<T> {
    /// The neighbours in the ring of the timer's slot, while `place` is a slot.
    prev: Cell<Link<T>>,
    next: Cell<Link<T>>,
    /// The deadline, while the timer is armed.
    deadline_ns: Cell<u64>,
    /// The slot that links this timer, as `level * SLOTS + slot`, or
    /// [`NEVER`], or [`UNARMED`].
    place: Cell<u16>,
    payload: T,
    _pin: PhantomPinned,
}

// SAFETY: `Wheel::arm`'s contract forbids moving an armed timer; an unarmed timer is only its
// payload.
unsafe impl<T: Send> Send for Timer<T> {}

impl<T: Copy> Timer<T> {
    /// Returns a timer that is not armed.
    pub(crate) fn new(payload: T) -> Timer<T> {
        Timer {
            prev: Cell::new(Link(NonNull::dangling())),
            next: Cell::new(Link(NonNull::dangling())),
            deadline_ns: Cell::new(NEVER_NS),
            place: Cell::new(UNARMED),
            payload,
            _pin: PhantomPinned,
        }
    }

    /// Returns whether the timer is armed. Under the wheel's lock.
    #[cfg(all(test, not(sinew_loom)))]
    pub(crate) fn is_armed(&self) -> bool {
        self.place.get() != UNARMED
    }
}

/// A link to a timer in a slot of the wheel: from the slot itself, or from a neighbour in its ring.
struct Link<T>(NonNull<Timer<T>>);

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Link<T> {}

impl<T> PartialEq for Link<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Deref for Link<T> {
    type Target = Timer<T>;

    fn deref(&self) -> &Timer<T> {
        // SAFETY: slots and rings link armed timers only (invariant 4). `arm`'s contract keeps those
        // alive and in place, and accessed under the wheel's lock. Only cells are written.
        unsafe { self.0.as_ref() }
    }
}

/// The wheel.
///
/// Between calls:
/// 1. a timer in a slot of level `L` has the same digits as `current_step`
///    above digit `L`, and a greater digit `L` (level 0: or an equal one);
/// 2. at the top level, where slots wrap round, a slot is 1 to 63 slots ahead
///    of the current one;
/// 3. `occupied[L]` has bit `s` set exactly when slot `s` of level `L` has a
///    timer;
/// 4. a timer's `place` names the slot whose ring it is in. Only timers in a
///    ring have links to neighbours that are used.
pub(crate) struct Wheel<T: Copy> {
    /// The latest time that `advance` has seen.
    now_ns: u64,
    /// The step up to which slots have been emptied: the step of `now_ns`. It is earlier inside of
    /// `advance`, and after a panic of its `fire`.
    current_step: u64,
    /// Not later than any deadline in a slot. A sleeper that heeds the results of `arm` does not
    /// sleep past it: only `arm` lowers it, and reports that. `cancel` may leave it too early.
    earliest_ns: Cell<u64>,
    armed: usize,
    occupied: [u64; LEVELS],
    /// The first timer of each slot's ring. Its `prev` is the last timer.
    slots: [[Option<Link<T>>; SLOTS]; LEVELS],
}

// SAFETY: `arm`'s contract says that timers are touched only under the lock that guards this wheel.
// So the thread that holds it may touch them. Payloads cross threads: `T: Send`.
unsafe impl<T: Copy + Send> Send for Wheel<T> {}

impl<T: Copy> Wheel<T> {
    /// Returns an empty wheel that stands at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Wheel<T> {
        Wheel {
            now_ns,
            current_step: step_of(now_ns),
            earliest_ns: Cell::new(NEVER_NS),
            armed: 0,
            occupied: [0; LEVELS],
            slots: [[None; SLOTS]; LEVELS],
        }
    }

    /// Returns the number of armed timers.
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    /// Returns whether no timer is armed.
    #[cfg(all(test, not(sinew_loom)))]
    pub(crate) fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Arms `timer`, or moves it to the new deadline if it is armed.
    ///
    /// A deadline that has passed is due at the next [`advance`]; `u64::MAX` never is.
    ///
    /// Returns `true` if the timer is now the earliest: a sleeper that asked [`next_deadline_ns`]
    /// before has to ask again. `false` means that such a sleeper wakes up in time.
    ///
    /// [`advance`]: Wheel::advance
    /// [`next_deadline_ns`]: Wheel::next_deadline_ns
    ///
    /// # Safety
    /// Until the timer has fired or been cancelled:
    /// - it is neither dropped nor moved (its drop does not cancel it);
    /// - it is passed to no other wheel;
    /// - all accesses to it, `is_armed` included, happen under the lock that guards this wheel.
    #[must_use = "the sleeper has to learn of an earlier deadline"]
    pub(crate) unsafe fn arm(&mut self, timer: &Timer<T>, deadline_ns: u64) -> bool {
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

    /// Disarms `timer`. Returns `false` if it was not armed: it never was, or it has fired.
    ///
    /// This changes nobody's sleep: a sleeper that sleeps until the cancelled deadline wakes up
    /// once for nothing.
    pub(crate) fn cancel(&mut self, timer: &Timer<T>) -> bool {
        self.disarm(timer)
    }

    /// Turns the wheel to `now_ns`. Calls `fire` with the payload of each timer whose deadline is
    /// at or before `now_ns`.
    ///
    /// A timer is unlinked before `fire` is called and not touched afterwards, so `fire` may free
    /// it. Timers fire in the order of their deadlines' steps, and within a step in any order. A
    /// deadline that had passed when it was armed counts as one in the step of that time.
    ///
    /// If the clock goes back, the wheel stands still. If `fire` panics, the other due timers stay
    /// armed and fire at the next call.
    pub(crate) fn advance(&mut self, now_ns: u64, mut fire: impl FnMut(T)) {
        self.now_ns = self.now_ns.max(now_ns);
        let now_step = step_of(self.now_ns);
        while let Some((level, slot, start_step)) = self.next_slot() {
            if start_step > now_step {
                break;
            }
            self.current_step = start_step;
            if level > 0 {
                self.cascade(level, slot);
                continue;
            }
            self.fire_due(slot, &mut fire);
            if start_step == now_step {
                break;
            }
        }
        // Keeps invariants 1 and 2: every occupied slot starts after this step,
        // or is the one of this step at level 0.
        self.current_step = now_step;
        if self.earliest_ns.get() <= self.now_ns {
            self.refresh_earliest();
        }
    }

    /// Returns the time at which to call [`advance`] next; `None` if nothing is ever due.
    ///
    /// This time is never later than the earliest deadline. If the next slot is one of level 0, it
    /// is the earliest deadline. Above level 0 it is the start of the slot: there `advance`
    /// cascades the slot, and fires a timer only if its deadline is exactly there.
    ///
    /// A sleeper that sleeps until this time and then advances never spins: after `advance(now)`
    /// this is later than `now` until another timer is armed. Each timer wakes the sleeper at most
    /// once for each level, and once for every 51 days.
    ///
    /// Takes time in proportion to the number of timers in the earliest step.
    ///
    /// [`advance`]: Wheel::advance
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.refresh_earliest();
        Some(self.earliest_ns.get()).filter(|&ns| ns != NEVER_NS)
    }

    /// Sets `earliest_ns` to the result of `next_deadline_ns`.
    fn refresh_earliest(&self) {
        self.earliest_ns.set(match self.next_slot() {
            None => NEVER_NS,
            Some((0, slot, _)) => self.earliest_in(slot),
            Some((_, _, start_step)) => start_step << STEP_BITS,
        });
    }

    /// Returns the occupied slot that comes up first: its level, its number and the step at which it
    /// starts.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let shift = SLOT_BITS * level as u32;
        let current = self.current_step >> shift;
        // Below the top no slot behind the current one is occupied, so counting
        // ahead from the current slot never wraps there.
        let ahead = self.occupied[level].rotate_right(current as u32 % SLOTS as u32).trailing_zeros();
        let position = current + u64::from(ahead);
        Some((level, position as usize % SLOTS, position << shift))
    }

    /// Returns the level and the slot of a deadline, as seen from `current_step`.
    fn place_for(&self, deadline_ns: u64) -> (usize, usize) {
        let step = step_of(deadline_ns).max(self.current_step);
        let differing = step ^ self.current_step;
        // `| 1`: equal steps belong to level 0, as if the last bit differed.
        let level = ((differing | 1).ilog2() / SLOT_BITS) as usize;
        if level < TOP {
            let position = step >> (SLOT_BITS * level as u32);
            (level, position as usize % SLOTS)
        } else {
            let shift = SLOT_BITS * TOP as u32;
            let current = self.current_step >> shift;
            let last = current + SLOTS as u64 - 1;
            (TOP, (step >> shift).min(last) as usize % SLOTS)
        }
    }

    /// Links `timer`, which is in no slot, at the end of its deadline's slot.
    fn put(&mut self, timer: &Timer<T>) {
        let (level, slot) = self.place_for(timer.deadline_ns.get());
        timer.place.set((level * SLOTS + slot) as u16);
        let link = Link(NonNull::from(timer));
        let head = &mut self.slots[level][slot];
        let Some(first) = *head else {
            *head = Some(link);
            timer.prev.set(link);
            timer.next.set(link);
            self.occupied[level] |= 1 << slot;
            return;
        };
        let last = first.prev.replace(link);
        last.next.set(link);
        timer.prev.set(last);
        timer.next.set(first);
    }

    /// Takes a timer out of its slot, if it is in one. Afterwards nothing in the wheel points to it.
    /// Returns whether it was armed.
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
        let (link, prev, next) = (Link(NonNull::from(timer)), timer.prev.get(), timer.next.get());
        if next == link {
            self.slots[level][slot] = None;
            self.occupied[level] &= !(1 << slot);
            return;
        }
        prev.next.set(next);
        next.prev.set(prev);
        if self.slots[level][slot] == Some(link) {
            self.slots[level][slot] = Some(next);
        }
    }

    /// Puts all timers of a slot above level 0 into lower slots. The slot has just become the current
    /// one, so no timer comes back to it.
    fn cascade(&mut self, level: usize, slot: usize) {
        let first = self.slots[level][slot].take();
        self.occupied[level] &= !(1 << slot);
        let mut rest = first;
        while let Some(timer) = rest {
            // Read before the timer is put elsewhere, which does not write the remaining `next` links
            // of the ring.
            let next = timer.next.get();
            self.put(&timer);
            rest = Some(next).filter(|_| Some(next) != first);
        }
    }

    /// Fires the timers of the current step's slot that are due by `now_ns`: all of them, if the step
    /// is over. The slot is occupied.
    fn fire_due(&mut self, slot: usize, fire: &mut impl FnMut(T)) {
        if self.now_ns < self.earliest_ns.get() {
            return;
        }
        let Some(mut timer) = self.slots[0][slot] else { return };
        let last = timer.prev.get();
        loop {
            // A timer of the ring that the walk has not reached is still armed, whatever `fire` does:
            // only this wheel cancels it, and it is borrowed here.
            let next = timer.next.get();
            if timer.deadline_ns.get() <= self.now_ns {
                self.fire_one(timer, fire);
            }
            if timer == last {
                break;
            }
            timer = next;
        }
    }

    /// Unlinks a timer and passes its payload on. The timer may be gone afterwards.
    fn fire_one(&mut self, timer: Link<T>, fire: &mut impl FnMut(T)) {
        let payload = timer.payload;
        self.disarm(&timer);
        fire(payload);
    }

    /// Returns the earliest deadline in an occupied slot of level 0.
    fn earliest_in(&self, slot: usize) -> u64 {
        let first = self.slots[0][slot];
        let mut earliest_ns = NEVER_NS;
        let mut rest = first;
        while let Some(timer) = rest {
            earliest_ns = earliest_ns.min(timer.deadline_ns.get());
            rest = Some(timer.next.get()).filter(|next| Some(*next) != first);
        }
        earliest_ns
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests;
