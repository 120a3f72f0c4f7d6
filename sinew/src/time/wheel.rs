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
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    /// Whether no timer is armed.
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
        let ahead = self.occupied[level]
            .rotate_right(current as u32 % SLOTS as u32)
            .trailing_zeros();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const TICK_NS: u64 = 1 << TICK_BITS;

    struct Xorshift(u64);

    impl Xorshift {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn below(&mut self, bound: u64) -> u64 {
            self.next() % bound
        }

        /// A number of up to `max_bits` bits, each length as likely as another.
        fn of_any_length(&mut self, max_bits: u64) -> u64 {
            let bits = self.below(max_bits + 1);
            self.next() & ((1_u64 << bits) - 1)
        }
    }

    fn timers(count: usize) -> Vec<Pin<Box<Timer<usize>>>> {
        (0..count).map(|id| Box::pin(Timer::new(id))).collect()
    }

    /// The safety contract, once for all tests: they run on one thread, use one
    /// wheel for each timer, and never use a wheel after its timers are gone.
    fn arm<T: Copy>(wheel: &mut Wheel<T>, timer: &Pin<Box<Timer<T>>>, deadline_ns: u64) -> bool {
        // SAFETY: see above.
        unsafe { wheel.arm(timer.as_ref(), deadline_ns) }
    }

    fn advance(wheel: &mut Wheel<usize>, now_ns: u64) -> Vec<usize> {
        let mut fired = Vec::new();
        wheel.advance(now_ns, |id| fired.push(id));
        fired
    }

    /// Recounts everything that the wheel's invariants promise.
    fn check_invariants(wheel: &Wheel<usize>) {
        let mut linked = 0;
        for level in 0..LEVELS {
            for slot in 0..SLOTS {
                let first = wheel.slots[level][slot];
                assert_eq!(!first.is_null(), wheel.occupied[level] >> slot & 1 == 1);
                if first.is_null() {
                    continue;
                }
                let mut timer = first;
                loop {
                    // SAFETY: tests keep their timers alive.
                    let this = unsafe { &*timer };
                    assert_eq!(this.place.get() as usize, level * SLOTS + slot);
                    assert!(wheel.earliest_ns.get() <= this.deadline_ns.get());
                    // SAFETY: as above.
                    assert!(ptr::eq(unsafe { (*this.next.get()).prev.get() }, timer));
                    linked += 1;
                    timer = this.next.get();
                    if ptr::eq(timer, first) {
                        break;
                    }
                }
            }
        }
        assert!(linked <= wheel.len());
    }

    /// A wheel beside a model that is too simple to be wrong.
    struct Pair {
        wheel: Wheel<usize>,
        timers: Vec<Pin<Box<Timer<usize>>>>,
        /// Armed timers, with the tick that orders their firing.
        model: BTreeMap<(u64, usize), u64>,
        deadlines: Vec<Option<u64>>,
        now_ns: u64,
        /// Until when a sleeper sleeps that heeds every answer of `arm`.
        sleeper_ns: u64,
    }

    impl Pair {
        fn new(now_ns: u64, count: usize) -> Pair {
            Pair {
                wheel: Wheel::new(now_ns),
                timers: timers(count),
                model: BTreeMap::new(),
                deadlines: vec![None; count],
                now_ns,
                sleeper_ns: u64::MAX,
            }
        }

        fn forget(&mut self, id: usize) -> bool {
            let Some(deadline_ns) = self.deadlines[id].take() else {
                return false;
            };
            self.model.remove(&(deadline_ns, id)).expect("modelled");
            true
        }

        fn arm(&mut self, id: usize, deadline_ns: u64) {
            self.forget(id);
            let order = tick_of(deadline_ns).max(tick_of(self.now_ns));
            self.model.insert((deadline_ns, id), order);
            self.deadlines[id] = Some(deadline_ns);
            if arm(&mut self.wheel, &self.timers[id], deadline_ns) {
                assert!(self.earliest_ns() == Some(deadline_ns));
                self.sleeper_ns = deadline_ns;
            }
            assert!(self.timers[id].is_armed());
        }

        fn cancel(&mut self, id: usize) {
            let expected = self.forget(id);
            assert_eq!(self.timers[id].is_armed(), expected);
            assert_eq!(self.wheel.cancel(self.timers[id].as_ref()), expected);
            assert!(!self.timers[id].is_armed());
        }

        fn advance(&mut self, now_ns: u64) {
            self.now_ns = self.now_ns.max(now_ns);
            let mut fired = Vec::new();
            self.wheel.advance(now_ns, |id| fired.push(id));
            let orders: Vec<u64> = fired
                .iter()
                .map(|&id| {
                    let deadline_ns = self.deadlines[id].expect("only armed timers fire");
                    assert!(deadline_ns <= self.now_ns, "early");
                    let order = self.model[&(deadline_ns, id)];
                    assert!(self.forget(id));
                    order
                })
                .collect();
            assert!(orders.is_sorted());
            if let Some(earliest_ns) = self.earliest_ns() {
                assert!(earliest_ns > self.now_ns, "late");
            }
            if self.sleeper_ns <= self.now_ns {
                self.sleep();
                assert!(self.sleeper_ns > self.now_ns, "spins");
            }
        }

        fn sleep(&mut self) {
            self.sleeper_ns = self.wheel.next_deadline_ns().unwrap_or(u64::MAX);
        }

        fn earliest_ns(&self) -> Option<u64> {
            self.model.first_key_value().map(|(&(ns, _), _)| ns)
        }

        fn check(&self) {
            assert_eq!(self.wheel.len(), self.model.len());
            assert_eq!(self.wheel.is_empty(), self.model.is_empty());
            if let Some(earliest_ns) = self.earliest_ns() {
                assert!(self.sleeper_ns <= earliest_ns, "overslept");
            }
        }
    }

    fn random_walk(seed: u64, steps: usize) {
        println!("seed {seed:#x}");
        const COUNT: usize = 200;
        const END_NS: u64 = u64::MAX / 2;
        let mut random = Xorshift(seed);
        let mut pair = Pair::new(0, COUNT);
        for step in 0..steps {
            let id = random.below(COUNT as u64) as usize;
            match random.below(16) {
                0..6 => {
                    let ahead_ns = random.of_any_length(62);
                    pair.arm(id, (pair.now_ns + ahead_ns).min(END_NS));
                }
                6 => {
                    let deadline_ns = random.below(END_NS);
                    pair.arm(id, deadline_ns);
                }
                7 => {
                    let behind_ns = random.of_any_length(40);
                    pair.arm(id, pair.now_ns.saturating_sub(behind_ns));
                }
                8..11 => pair.cancel(id),
                11 => pair.sleep(),
                12 => {
                    if let Some(next_ns) = pair.wheel.next_deadline_ns() {
                        assert!(Some(next_ns) <= pair.earliest_ns());
                        if next_ns < END_NS {
                            pair.sleeper_ns = next_ns;
                            pair.advance(next_ns);
                        }
                    }
                }
                13 => {
                    if let Some(earliest_ns) = pair.earliest_ns() {
                        pair.advance(earliest_ns.saturating_sub(1));
                        pair.advance(earliest_ns);
                    }
                }
                _ => {
                    let max_bits =
                        [18, 18, 18, 18, 30, 30, 30, 45, 45, 62][random.below(10) as usize];
                    let step_ns = random.of_any_length(max_bits);
                    pair.advance(pair.now_ns + step_ns);
                }
            }
            pair.check();
            if step % 64 == 0 {
                check_invariants(&pair.wheel);
            }
            if pair.now_ns >= END_NS {
                let now_ns = random.of_any_length(60);
                pair = Pair::new(now_ns, COUNT);
            }
        }
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03, 7] {
            random_walk(seed, 100_000);
        }
    }

    #[test]
    fn fires_at_the_deadline_and_not_a_nanosecond_before() {
        let edges = [1, TICK_NS - 1, TICK_NS, TICK_NS + 1, 64 * TICK_NS];
        let powers = (2..=9).map(|level| TICK_NS << (SLOT_BITS * level).min(46));
        for start_ns in [0, 1, TICK_NS - 1, 12_345_678_901, 1 << 51, (1 << 52) - 1] {
            for ahead_ns in powers.clone().chain(edges) {
                for deadline_ns in [ahead_ns - 1, ahead_ns, ahead_ns + 1] {
                    let deadline_ns = start_ns + deadline_ns.max(1);
                    let timers = timers(1);
                    let mut wheel = Wheel::new(start_ns);
                    assert!(arm(&mut wheel, &timers[0], deadline_ns));
                    assert!(advance(&mut wheel, deadline_ns - 1).is_empty());
                    assert_eq!(advance(&mut wheel, deadline_ns), [0]);
                    assert!(wheel.is_empty() && !timers[0].is_armed());
                }
            }
        }
    }

    #[test]
    fn within_one_tick_only_the_due_fire() {
        let timers = timers(3);
        let mut wheel = Wheel::new(10 * TICK_NS);
        for (timer, ahead_ns) in timers.iter().zip([300, 100, 200]) {
            let _ = arm(&mut wheel, timer, 10 * TICK_NS + ahead_ns);
        }
        assert_eq!(wheel.next_deadline_ns(), Some(10 * TICK_NS + 100));
        assert_eq!(advance(&mut wheel, 10 * TICK_NS + 250), [1, 2]);
        assert_eq!(wheel.next_deadline_ns(), Some(10 * TICK_NS + 300));
        assert_eq!(advance(&mut wheel, 10 * TICK_NS + 300), [0]);
        assert_eq!(wheel.next_deadline_ns(), None);
    }

    #[test]
    fn after_a_long_rest_a_near_deadline_is_known_exactly() {
        let timers = timers(1);
        let mut wheel = Wheel::new(0);
        assert!(advance(&mut wheel, 1 << 45).is_empty());
        assert!(arm(&mut wheel, &timers[0], (1 << 45) + 1000));
        assert_eq!(wheel.next_deadline_ns(), Some((1 << 45) + 1000));
        assert!(wheel.cancel(timers[0].as_ref()));
    }

    #[test]
    fn following_next_deadline_terminates() {
        let mut random = Xorshift(0xABCD_EF01_2345_6789);
        for _ in 0..20 {
            const COUNT: usize = 100;
            let mut now_ns = random.of_any_length(50);
            let timers = timers(COUNT);
            let mut wheel = Wheel::new(now_ns);
            let mut deadlines = Vec::new();
            for timer in &timers {
                let deadline_ns = random.of_any_length(63);
                let _ = arm(&mut wheel, timer, deadline_ns);
                deadlines.push(deadline_ns);
            }
            let start_ns = now_ns;
            let mut fired = advance(&mut wheel, now_ns);
            let mut wakes = 0;
            while let Some(next_ns) = wheel.next_deadline_ns() {
                assert!(next_ns > now_ns);
                now_ns = next_ns;
                for id in advance(&mut wheel, now_ns) {
                    assert_eq!(deadlines[id], now_ns, "late");
                    fired.push(id);
                }
                wakes += 1;
            }
            assert!(wheel.is_empty());
            assert_eq!(fired.len(), COUNT);
            let spans = (now_ns - start_ns) / (50 * 86_400 * 1_000_000_000) + 1;
            assert!(wakes <= (COUNT * LEVELS) as u64 + spans);
        }
    }

    #[test]
    fn a_million_armed_and_cancelled_leave_nothing() {
        const COUNT: usize = 1_000_000;
        let mut random = Xorshift(0x1234_5678_9ABC_DEF1);
        let timers: Vec<Timer<usize>> = (0..COUNT).map(Timer::new).collect();
        let mut wheel = Wheel::new(5);
        for timer in &timers {
            let deadline_ns = random.of_any_length(62);
            // SAFETY: the vector's timers stay where they are until all are
            // cancelled; one thread.
            unsafe {
                let _ = wheel.arm(Pin::new_unchecked(timer), deadline_ns);
            }
        }
        assert_eq!(wheel.len(), COUNT);
        for timer in &timers {
            // SAFETY: as above.
            let timer = unsafe { Pin::new_unchecked(timer) };
            assert!(wheel.cancel(timer));
            assert!(!wheel.cancel(timer));
        }
        assert!(wheel.is_empty());
        assert_eq!(wheel.occupied, [0; LEVELS]);
        assert_eq!(wheel.next_deadline_ns(), None);
        assert!(advance(&mut wheel, u64::MAX).is_empty());
    }

    #[test]
    fn the_greatest_deadline_never_comes() {
        let timers = timers(2);
        let mut wheel = Wheel::new(0);
        assert!(!arm(&mut wheel, &timers[0], u64::MAX));
        assert_eq!(wheel.len(), 1);
        assert_eq!(wheel.next_deadline_ns(), None);
        assert!(arm(&mut wheel, &timers[1], u64::MAX - 1));
        assert_eq!(advance(&mut wheel, u64::MAX), [1]);
        assert!(timers[0].is_armed());
        assert!(wheel.cancel(timers[0].as_ref()));
        assert!(!wheel.cancel(timers[0].as_ref()));
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_clock_that_goes_backwards_stands_still() {
        let timers = timers(2);
        let mut wheel = Wheel::new(1000 * TICK_NS);
        let _ = arm(&mut wheel, &timers[0], 1001 * TICK_NS);
        assert!(advance(&mut wheel, 0).is_empty());
        assert!(advance(&mut wheel, 1000 * TICK_NS).is_empty());
        assert_eq!(wheel.next_deadline_ns(), Some(1001 * TICK_NS));
        let _ = arm(&mut wheel, &timers[1], 999 * TICK_NS);
        assert_eq!(wheel.next_deadline_ns(), Some(999 * TICK_NS));
        assert_eq!(advance(&mut wheel, 5), [1]);
        assert_eq!(advance(&mut wheel, 1001 * TICK_NS), [0]);
    }

    #[test]
    fn only_an_earlier_deadline_disturbs_the_sleeper() {
        let timers = timers(4);
        let mut wheel = Wheel::new(0);
        assert!(arm(&mut wheel, &timers[0], 5000));
        assert!(!arm(&mut wheel, &timers[1], 5000));
        assert!(!arm(&mut wheel, &timers[2], 6000));
        assert!(arm(&mut wheel, &timers[3], 4999));
        assert!(wheel.cancel(timers[3].as_ref()));
        assert!(wheel.cancel(timers[0].as_ref()));
        assert!(wheel.cancel(timers[1].as_ref()));
        assert_eq!(wheel.next_deadline_ns(), Some(6000));
        assert!(arm(&mut wheel, &timers[3], 5500));
        assert_eq!(advance(&mut wheel, 6000).len(), 2);
        assert!(arm(&mut wheel, &timers[0], 1 << 50));
    }

    #[test]
    fn arming_again_moves_the_timer() {
        let timers = timers(1);
        let mut wheel = Wheel::new(0);
        for deadline_ns in [1 << 40, 10, u64::MAX, 1 << 20] {
            let _ = arm(&mut wheel, &timers[0], deadline_ns);
            assert_eq!(wheel.len(), 1);
        }
        assert!(advance(&mut wheel, (1 << 20) - 1).is_empty());
        assert_eq!(advance(&mut wheel, 1 << 20), [0]);
        assert!(advance(&mut wheel, 1 << 41).is_empty());
    }

    #[test]
    fn a_timer_may_be_freed_when_it_fires() {
        type Owned = Cell<Option<Pin<Box<Timer<usize>>>>>;
        let owners: Vec<Owned> = timers(100)
            .into_iter()
            .map(|t| Cell::new(Some(t)))
            .collect();
        let mut wheel = Wheel::new(0);
        for (id, owner) in owners.iter().enumerate() {
            let timer = owner.take().expect("owned");
            let _ = arm(&mut wheel, &timer, [7, 900, TICK_NS * 3, 1 << 30][id % 4]);
            owner.set(Some(timer));
        }
        let mut freed = 0;
        for now_ns in [100, 901, TICK_NS * 4, 1 << 31] {
            wheel.advance(now_ns, |id| {
                drop(owners[id].take().expect("fires once"));
                freed += 1;
            });
        }
        assert_eq!(freed, owners.len());
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_panic_while_firing_loses_no_timer() {
        for spread_ns in [1, TICK_NS, TICK_NS * 100] {
            let timers = timers(10);
            let mut wheel = Wheel::new(0);
            for (position, timer) in timers.iter().enumerate() {
                let _ = arm(&mut wheel, timer, 1 + position as u64 * spread_ns);
            }
            let mut fired = Vec::new();
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                wheel.advance(TICK_NS * 1000, |id| {
                    fired.push(id);
                    assert_ne!(id, 4, "the panic of this test");
                });
            }));
            assert!(unwound.is_err());
            check_invariants(&wheel);
            fired.extend(advance(&mut wheel, 0));
            assert_eq!(fired, Vec::from_iter(0..10));
        }
    }
}
