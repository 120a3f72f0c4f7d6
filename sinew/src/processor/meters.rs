//! The counters of a processor. The [essay](crate::processor) says why it is cheap.

use super::Processor;
use super::drain::Tally;
use super::post::Post;
use crate::base::clock::cycles_in_us;
use crate::base::describe::Entry;
use crate::sched::Ledger;
use crate::strand::Ready;
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of buckets of [`Meters::waits`]: up to 1 µs, 2 µs, 4 µs and so on to 16.8 s, and all
/// that is longer.
pub(crate) const WAIT_BUCKETS: usize = 26;

/// A number that only grows. One thread writes it, any thread reads it.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// By the one thread that writes it: no other write comes between the load and the store.
    #[inline(always)]
    pub(super) fn add(&self, number: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(number), Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of a processor number. They go on when another processor takes the number. Written by
/// the processor only, except `relieved`.
///
/// Readers of the process's memory know the offsets: see [`METERS`].
#[repr(C)]
pub(crate) struct Meters {
    /// The strands that were spawned and that finished here.
    tally: Tally,
    /// Strands that stopped here: they parked, or waited for something. This and the next two are as of the last
    /// beat, or of the last time that the processor ran out of work or fell asleep.
    pub(crate) stops: Counter,
    /// Stopped strands that were made ready here.
    pub(crate) wakeups: Counter,
    pub(crate) dispatches: Counter,
    /// Strands that the processor took from others because it had fewer, or none.
    pub(crate) steals: Counter,
    /// Strands that it took from a queue that was neglected, or whose processor was held up or gone.
    pub(crate) rescues: Counter,
    /// Searches between two pauses, while the processor lingered.
    pub(crate) spins: Counter,
    pub(crate) sleeps: Counter,
    idle: Idleness,
    /// The calls of the kernel that asked for events.
    pub(crate) looks: Counter,
    /// The events that these brought.
    pub(crate) events: Counter,
    /// The sum of the times in `waits`.
    pub(crate) waited_us: Counter,
    /// How long strands waited from ready to dispatch. Bucket `n` has those of less than `2^n` µs that no
    /// bucket below has.
    waits: [Counter; WAIT_BUCKETS],
    /// Fibres that were to begin here while the processor was held up, and that the warden gave to
    /// others. Written by the warden only.
    pub(crate) relieved: Counter,
}

/// The counters by name, with their offsets in [`Meters`], for readers of the process's memory. In the
/// text of `Metrics::to_openmetrics` each has the name `sinew_<name>_total`. But `idle_cycles`, an
/// [`Idleness`], is `sinew_idle_seconds_total` there, and `waited_us` the sum of `sinew_ready_wait_seconds`.
pub(crate) const METERS: [(&str, usize); 14] = [
    ("spawned", offset_of!(Meters, tally) + Tally::SPAWNED),
    ("finished", offset_of!(Meters, tally) + Tally::FINISHED),
    ("stops", offset_of!(Meters, stops)),
    ("wakeups", offset_of!(Meters, wakeups)),
    ("dispatches", offset_of!(Meters, dispatches)),
    ("steals", offset_of!(Meters, steals)),
    ("rescues", offset_of!(Meters, rescues)),
    ("spins", offset_of!(Meters, spins)),
    ("sleeps", offset_of!(Meters, sleeps)),
    ("looks", offset_of!(Meters, looks)),
    ("events", offset_of!(Meters, events)),
    ("relieved", offset_of!(Meters, relieved)),
    ("idle_cycles", offset_of!(Meters, idle)),
    ("waited_us", offset_of!(Meters, waited_us)),
];

/// The entries of the description: the counters, and the histogram.
pub(crate) const ENTRIES: [Entry; METERS.len() + 2] = {
    let mut entries = [Entry::number("meter_waits", offset_of!(Meters, waits)); METERS.len() + 2];
    entries[METERS.len()] = Entry::number("meter_waits.length", WAIT_BUCKETS);
    let mut number = 0;
    while number < METERS.len() {
        let (name, offset) = METERS[number];
        entries[number] = Entry::under("meter.", name, offset);
        number += 1;
    }
    entries
};

impl Meters {
    pub(super) fn new() -> Meters {
        Meters {
            tally: Tally::new(),
            stops: Counter::default(),
            wakeups: Counter::default(),
            dispatches: Counter::default(),
            steals: Counter::default(),
            rescues: Counter::default(),
            spins: Counter::default(),
            sleeps: Counter::default(),
            idle: Idleness::default(),
            looks: Counter::default(),
            events: Counter::default(),
            waited_us: Counter::default(),
            waits: Default::default(),
            relieved: Counter::default(),
        }
    }

    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts a call of the kernel that brought this number of events.
    pub(crate) fn count_look(&self, events: u64) {
        self.looks.add(1);
        self.events.add(events);
    }

    /// Returns the buckets. Together they have counted each dispatch once.
    pub(crate) fn waits(&self) -> [u64; WAIT_BUCKETS] {
        std::array::from_fn(|bucket| self.waits[bucket].read())
    }

    pub(crate) fn idle(&self) -> &Idleness {
        &self.idle
    }
}

/// For how long a processor has had no work, in cycles. One word, so that no reader counts a time twice
/// or not at all: the sum of all times that are over; or, while the processor has no work, that sum less
/// the beginning of this time, modulo 2^63, and the highest bit.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Idleness(AtomicU64);

impl Idleness {
    const IDLE: u64 = 1 << 63;

    /// `busy -> idle`. By the processor.
    fn begin(&self, now: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(now) | Idleness::IDLE, Relaxed);
    }

    /// `idle -> busy`. By the processor.
    fn end(&self, now: u64) {
        self.0.store(self.cycles(now), Relaxed);
    }

    /// Says whether the processor has no work.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Relaxed) & Idleness::IDLE != 0
    }

    /// Returns the time without work up to `now`.
    pub(crate) fn cycles(&self, now: u64) -> u64 {
        let word = self.0.load(Relaxed);
        if word & Idleness::IDLE == 0 { word } else { word.wrapping_add(now) & !Idleness::IDLE }
    }
}

impl Ledger for Post {
    fn stole(&self, strands: usize) {
        self.meters().steals.add(strands as u64);
    }

    fn rescued(&self, strands: usize) {
        self.meters().rescues.add(strands as u64);
    }
}

/// A sample of how long strands wait. It is taken of the first strand after a beat, and of the first one
/// after an idle time. It stands for all dispatches up to the next sample. Owner: the processor.
pub(super) struct Sample {
    waited_us: Cell<u64>,
    /// A microsecond is this part of 2^32 cycles.
    us_per_cycle: u64,
}

impl Sample {
    pub(super) fn new() -> Sample {
        Sample { waited_us: Cell::new(0), us_per_cycle: (1000 << 32) / cycles_in_us(1000).max(1) }
    }

    /// Takes a sample of a strand that is dispatched at the time `now`.
    fn take(&self, now: u64, strand: &Ready) {
        let waited = u128::from(now.saturating_sub(strand.ready_at()));
        self.waited_us.set(((waited * u128::from(self.us_per_cycle)) >> 32) as u64);
    }
}

/// Returns the bucket for a wait of this number of whole microseconds.
fn bucket_of(us: u64) -> usize {
    ((u64::BITS - us.leading_zeros()) as usize).min(WAIT_BUCKETS - 1)
}

/// The counts of a processor since it last added up. Owner: the processor.
#[derive(Default)]
pub(super) struct Pending {
    stops: Cell<u32>,
    wakeups: Cell<u32>,
}

impl Pending {
    #[inline(always)]
    pub(super) fn count_stop(&self) {
        self.stops.set(self.stops.get().wrapping_add(1));
    }

    #[inline(always)]
    pub(super) fn count_wakeups(&self, number: u32) {
        self.wakeups.set(self.wakeups.get().wrapping_add(number));
    }
}

impl Processor {
    /// Counts a stopped strand that becomes ready here. Returns the processor, which is to make it ready.
    #[inline(always)]
    pub(super) fn count_wakeup(&self) -> &Processor {
        self.pending.count_wakeups(1);
        self
    }

    /// Adds up what the processor has counted since the last call.
    pub(super) fn add_up(&self) {
        let (meters, dispatches) = (self.post.meters(), self.clock.take_dispatches());
        meters.stops.add(self.pending.stops.take().into());
        meters.wakeups.add(self.pending.wakeups.take().into());
        let waited_us = self.sample.waited_us.get();
        meters.dispatches.add(dispatches);
        meters.waited_us.add(dispatches * waited_us);
        meters.waits[bucket_of(waited_us)].add(dispatches);
    }

    /// Takes a sample, when the clock has just been read and `next` is the strand to run.
    pub(super) fn sample_wait(&self, next: &Option<Ready>) {
        if let Some(next) = next {
            self.sample.take(self.clock.now(), next);
        }
    }

    /// Counts a sleep that begins. A processor without work may have woken strands that live on others.
    pub(super) fn count_sleep(&self) {
        self.add_up();
        self.post.meters().sleeps.add(1);
    }

    /// Notes that the processor has run out of work. Returns the time.
    pub(super) fn begin_idling(&self) -> u64 {
        self.add_up();
        self.stacks.tell_kept();
        let since = self.clock.now();
        self.post.meters().idle.begin(since);
        since
    }

    /// Notes that the processor has work again, or ends. Returns for how long it had none, in cycles.
    pub(super) fn end_idling(&self, since: u64, next: &Option<Ready>) -> u64 {
        // The clock was read meanwhile.
        let now = self.clock.now();
        self.post.meters().idle.end(now);
        self.sample_wait(next);
        now.saturating_sub(since)
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_in_the_bucket_below_whose_bound_it_is() {
        let cases = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1 << 24, WAIT_BUCKETS - 1), (u64::MAX, WAIT_BUCKETS - 1)];
        cases.into_iter().for_each(|(us, bucket)| assert_eq!(bucket_of(us), bucket, "{us} µs"));
        (0..WAIT_BUCKETS as u32 - 1).for_each(|n| assert_eq!(bucket_of((1 << n) - 1), n as usize));
    }

    #[test]
    fn time_without_work_adds_up_while_it_lasts() {
        let idle = Idleness::default();
        idle.begin(1000);
        assert!(idle.is_idle());
        assert_eq!((idle.cycles(1000), idle.cycles(1005)), (0, 5));
        idle.end(1010);
        assert!(!idle.is_idle());
        assert_eq!(idle.cycles(2000), 10);
        idle.begin(2000);
        assert_eq!(idle.cycles(2001), 11);
        idle.end(2100);
        assert_eq!(idle.cycles(u64::MAX), 110);
    }

    #[test]
    fn names_and_offsets_are_those_of_the_counters() {
        let meters = Meters::new();
        let at = |offset: usize| std::ptr::from_ref(&meters).addr() + offset;
        let offset_of = |name| METERS.iter().find(|(known, _)| *known == name).map(|(_, offset)| at(*offset));
        assert_eq!(offset_of("stops"), Some(std::ptr::from_ref(&meters.stops).addr()));
        assert_eq!(offset_of("relieved"), Some(std::ptr::from_ref(&meters.relieved).addr()));
        assert_eq!(offset_of("spawned"), Some(std::ptr::from_ref(&meters.tally).addr() + Tally::SPAWNED));
        let mut offsets: Vec<_> = METERS.iter().map(|(_, offset)| *offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), METERS.len(), "no counter has two names");
    }
}
