//! The flight recorder: a ring for each processor with what it did last.
//!
//! The processor writes, and nobody in this process reads: a reader is another process, or a debugger that
//! has a core. So a ring is plain memory with a layout that the description tells, and an entry costs a few
//! stores. The essay of [`processor`](crate::processor) has the events and the protocol.
#![allow(unsafe_code)]

use super::post::{Hold, Post};
use super::warden::HELD_UP_US;
use super::{Processor, with_current};
use crate::base::clock::cycles_in_us;
use crate::base::describe;
use crate::strand::{After, Ready, Strand};
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The number of slots of a ring, unless another is asked for: 512 KiB. Of 4 Ki to 64 Ki slots, 16 Ki and 32 Ki cost a yield
/// least where the second cache has 1 MiB.
const USUAL_SLOTS: usize = 32 * 1024;

/// The smallest and the largest number of slots. The largest ring takes 1 GiB.
const FEWEST_SLOTS: usize = 256;
const MOST_SLOTS: usize = 1 << 26;

/// After this number of slots an event that is no dispatch is told with the time again, so that a reader finds the time in
/// every part of a ring. Unmeasured.
const SLOTS_PER_TIME: u64 = 128;

/// "sinewrec", as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"sinewrec");

/// Something that a processor did. The number stands in the low bits of a slot's first word, where the address of
/// a strand has zeros.
///
/// Strands that gave up the processor have the numbers of [`After`], plus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    /// A strand ran, and yielded. This and the next ones stand for a whole dispatch: it ends at the entry's
    /// time, and began at the time of the entry before.
    Yielded = After::Yielded as u8 + 1,
    /// ... and parked. The argument is the word that says for what.
    Parked = After::Parking as u8 + 1,
    /// ... and waits. The argument is the word that says for what.
    Waited = After::Waiting as u8 + 1,
    /// ... and belongs to another cluster now.
    Moved = After::Moving as u8 + 1,
    /// ... or rather was left to another processor, before it had begun.
    Declined = After::Declined as u8 + 1,
    /// ... and has ended.
    Finished = After::Finished as u8 + 1,
    /// ... and is a mailbox without letters now.
    Idled = After::Idle as u8 + 1,
    /// ... and is a mailbox that waits with its carrier now. An entry for the carrier follows.
    Left = After::Left as u8 + 1,
    /// ... and is a carrier without a mailbox now.
    Rested = After::Resting as u8 + 1,
    /// A strand that runs here has spawned the strand.
    Spawned = 16,
    /// A fibre runs for the first time. The word has where it was spawned, and the argument its id.
    Began = 17,
    /// The strand that runs here, or a driver, has made the strand ready. The argument is 1 if the strand did whose
    /// end is in the entry before.
    Readied = 18,
    /// The processor has taken the strand from another one.
    Stole = 19,
    /// A dispatch has held the processor up since the last reading of its clock. The argument is a `Hold`. The word is
    /// the number of a slot: the dispatch is the first one whose entry is there or behind it.
    Stalled = 20,
    /// The processor sleeps.
    Slept = 21,
    /// The processor has found a strand after it had none.
    Resumed = 22,
    /// The poller had events. The argument is the number of parties that go on.
    Polled = 23,
    /// A batch of calls was made. The argument is the number of calls.
    Called = 24,
    /// Drivers have done what is due at a beat. The word is the number of a slot: the entries from there on tell what.
    Looked = 27,
    /// Recording begins, or goes on.
    Started = 25,
    /// Recording stops.
    Stopped = 26,
    /// No entry: the word is the time of the entries that follow, in cycles.
    Time = 28,
    /// No entry: the word is the argument of the entry in the slot before.
    Argument = 29,
}

/// The bits of a slot's first word that have the number of the event.
const EVENT_BITS: usize = 63;

/// The head of a ring, in front of its slots. A reader relies on the layout.
#[repr(C, align(64))]
pub(crate) struct Ring {
    magic: u64,
    /// The number of slots, a power of two.
    capacity: u64,
    /// The number of slots that were ever written. Slot `n` is at place `n % capacity`. Written after all slots of an
    /// entry, so the entry that is being written is not counted, and is at the place of the oldest one.
    written: AtomicU64,
    /// 1 while the processor records.
    is_recording: AtomicU64,
    /// The number of slots, less one. For the processor.
    mask: u64,
    /// The number of slots that were written when the processor was last found to be held up. Written by the warden only.
    held: AtomicU64,
}

/// A part of an entry. A reader relies on the layout.
///
/// An entry is what a processor did at one moment. It takes one slot, and a second one if it has an argument other
/// than 0. Its time is that of the last slot with [`Event::Time`] before it.
#[repr(C)]
struct Slot {
    /// The address of a strand or 0, and an [`Event`] in the low bits.
    what: AtomicU64,
    /// For dispatches: when the strand became ready, in cycles; 0 if that is not known. Otherwise as the event says.
    word: AtomicU64,
}

impl Ring {
    /// Maps a ring. Returns `None` if there is no memory.
    fn map(slots: usize) -> Option<NonNull<Ring>> {
        let capacity = slots.clamp(FEWEST_SLOTS, MOST_SLOTS).next_power_of_two();
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the place.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), Ring::bytes(capacity), access, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let ring = mapped.cast::<Ring>();
        let (written, is_recording) = (AtomicU64::new(0), AtomicU64::new(0));
        // SAFETY: the memory is ours, aligned to a page, and large enough.
        unsafe {
            ring.write(Ring {
                magic: MAGIC,
                capacity: capacity as u64,
                written,
                is_recording,
                mask: capacity as u64 - 1,
                held: AtomicU64::new(0),
            })
        };
        NonNull::new(ring)
    }

    fn bytes(capacity: usize) -> usize {
        size_of::<Ring>() + capacity * size_of::<Slot>()
    }

    /// Writes slots, each of them a first word and a second one. By the processor.
    ///
    /// # Safety
    /// [`map`](Ring::map) has made the ring, and it is mapped.
    #[inline(always)]
    unsafe fn write<const SLOTS: usize>(ring: NonNull<Ring>, slots: [(u64, u64); SLOTS]) {
        // SAFETY: by the contract.
        let head = unsafe { ring.as_ref() };
        let mut written = head.written.load(Relaxed);
        for (what, word) in slots {
            let place = (written & head.mask) as usize;
            // SAFETY: `map` has made room for `capacity` slots behind the head. Zeros are slots as well.
            let slot = unsafe { ring.add(1).cast::<Slot>().add(place).as_ref() };
            slot.what.store(what, Relaxed);
            slot.word.store(word, Relaxed);
            written += 1;
        }
        // Release: a reader that sees the number sees the slots.
        head.written.store(written, Release);
    }
}

/// The place of a ring in a post, and its owner. Written by the processor, once.
#[repr(transparent)]
pub(crate) struct RingPlace(AtomicPtr<Ring>);

impl RingPlace {
    pub(super) const fn new() -> RingPlace {
        RingPlace(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns the ring. Maps it if there is none.
    fn get_or_map(&self, slots: usize) -> Option<NonNull<Ring>> {
        if let Some(ring) = NonNull::new(self.0.load(Relaxed)) {
            return Some(ring);
        }
        let ring = Ring::map(slots)?;
        // Release: a reader that sees the address sees the head.
        self.0.store(ring.as_ptr(), Release);
        Some(ring)
    }

    fn head(&self) -> Option<&Ring> {
        // Acquire pairs with the Release in `get_or_map`.
        // SAFETY: the ring stays as long as the place.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Returns the number of slots that were ever written, and the number of those that are left.
    pub(super) fn count(&self) -> (u64, u64) {
        let Some(head) = self.head() else { return (0, 0) };
        let written = head.written.load(Relaxed);
        (written, written.min(head.capacity))
    }

    /// Notes that the dispatch whose entry comes next holds the processor up. By the warden.
    pub(super) fn hold(&self) {
        if let Some(head) = self.head() {
            head.held.store(head.written.load(Relaxed), Relaxed);
        }
    }

    /// Returns the number of slots at the last [`hold`](RingPlace::hold).
    fn held(&self) -> u64 {
        self.head().map_or(0, |head| head.held.load(Relaxed))
    }
}

impl Drop for RingPlace {
    fn drop(&mut self) {
        if let Some(ring) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: `map` has made it. The processor has ended, and no other thread has a reference.
            unsafe { libc::munmap(ring.as_ptr().cast(), Ring::bytes(ring.as_ref().capacity as usize)) };
        }
    }
}

/// The part of a processor's loop that records. The loop is compiled with an implementation.
pub(super) trait Recording: Copy {
    const IS_ON: bool;

    /// Records that a strand has yielded.
    fn yielded(self, strand: &Ready);

    /// Records that a strand parks or waits.
    fn stopped(self, strand: &Ready, after: After);

    /// Records why a strand gave up the processor.
    fn gave_up(self, strand: &Ready, after: After);
}

/// Records nothing.
#[derive(Clone, Copy)]
pub(super) struct Off;

/// Records in the ring of the processor. Exists only while the processor runs its loop, and its post keeps the ring.
#[derive(Clone, Copy)]
pub(super) struct On(NonNull<Ring>);

impl Recording for Off {
    const IS_ON: bool = false;

    #[inline(always)]
    fn yielded(self, _: &Ready) {}

    #[inline(always)]
    fn stopped(self, _: &Ready, _: After) {}

    #[inline(always)]
    fn gave_up(self, _: &Ready, _: After) {}
}

impl Recording for On {
    const IS_ON: bool = true;

    #[inline(always)]
    fn yielded(self, strand: &Ready) {
        let what = strand.address() as u64 + Event::Yielded as u64;
        // SAFETY: the post keeps the ring.
        unsafe { Ring::write(self.0, [(what, strand.ready_at())]) };
    }

    #[inline(always)]
    fn stopped(self, strand: &Ready, after: After) {
        let what = strand.address() as u64 + after as u64 + 1;
        let argument = (Event::Argument as u64, strand.strand().wait());
        // SAFETY: as above.
        unsafe { Ring::write(self.0, [(what, strand.ready_at()), argument]) };
    }

    fn gave_up(self, strand: &Ready, after: After) {
        let what = strand.address() as u64 + after as u64 + 1;
        match after {
            After::Parking | After::Waiting => self.stopped(strand, after),
            // The mailbox may be gone.
            // SAFETY: as above.
            After::Idle | After::Left => unsafe { Ring::write(self.0, [(what, 0)]) },
            // SAFETY: as above.
            _ => unsafe { Ring::write(self.0, [(what, strand.ready_at())]) },
        }
    }
}

/// The last order to all processors of the process: 1 to record, 0 not to, and above that the number of the order.
/// 0 if there was none.
static ORDER: AtomicU64 = AtomicU64::new(0);

/// Orders all processors to record, or not to. Each follows at its next beat.
pub(crate) fn order(is_on: bool) {
    let change = |order: u64| Some(((order >> 1) + 1) << 1 | u64::from(is_on));
    // The change is never refused.
    let _ = ORDER.fetch_update(Relaxed, Relaxed, change);
}

/// Whether the processors of a runtime record: as the runtime was built, until the next order.
pub(super) struct Setting {
    /// The number of slots in a ring; 0 if processors do not record without an order. Written when the runtime is
    /// built.
    slots: AtomicUsize,
    /// The last order before the runtime was built.
    order: u64,
}

impl Setting {
    pub(super) fn new() -> Setting {
        let order = ORDER.load(Relaxed);
        let asked = asked_by_environment();
        let slots = if asked == 0 && order & 1 == 1 { USUAL_SLOTS } else { asked };
        Setting { slots: AtomicUsize::new(slots), order }
    }

    /// Lets processors record in rings of this number of slots; not at all if it is 0.
    pub(super) fn set(&self, slots: usize) {
        self.slots.store(slots, Relaxed);
    }

    /// Returns the number of slots that a ring is to have; 0 if processors are not to record.
    fn slots_wanted(&self) -> usize {
        let (slots, order) = (self.slots.load(Relaxed), ORDER.load(Relaxed));
        match order & 1 {
            _ if order == self.order => slots,
            0 => 0,
            _ if slots == 0 => USUAL_SLOTS,
            _ => slots,
        }
    }
}

/// Returns the number of slots that the environment asks for: `SINEW_RECORD` is a number, and 1 stands
/// for the usual one. 0 if it does not ask for the recorder.
fn asked_by_environment() -> usize {
    static ASKED: OnceLock<usize> = OnceLock::new();
    let parse = |value: String| match value.trim().parse() {
        Ok(1) => USUAL_SLOTS,
        Ok(slots) => slots,
        Err(_) => 0,
    };
    *ASKED.get_or_init(|| std::env::var("SINEW_RECORD").map_or(0, parse))
}

/// Records that the poller had this number of events. By a processor.
pub(crate) fn note_polled(events: usize) {
    with_current(|processor| processor.into_iter().for_each(|own| own.note(Event::Polled, 0, events as u64)));
}

/// Records that a batch of this number of calls was made. By a processor.
pub(crate) fn note_called(calls: usize) {
    with_current(|processor| processor.into_iter().for_each(|own| own.note(Event::Called, 0, calls as u64)));
}

/// The processor's end of its ring. Owner: the processor.
pub(super) struct Recorder {
    /// The ring, while the processor records. It stays as long as the post, which the processor has a
    /// reference to.
    ring: Cell<Option<NonNull<Ring>>>,
    /// The time that was written last, and the number of the slot behind it.
    time: Cell<(u64, u64)>,
    /// Whether there was no memory for a ring.
    is_refused: Cell<bool>,
}

impl Recorder {
    pub(super) fn new() -> Recorder {
        Recorder { ring: Cell::new(None), time: Cell::new((0, 0)), is_refused: Cell::new(false) }
    }

    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.ring.get().is_some()
    }

    /// Returns the recorder if it is on.
    pub(super) fn on(&self) -> Option<On> {
        self.ring.get().map(On)
    }

    /// Returns the number of slots that were ever written; 0 while the processor does not record.
    pub(super) fn written(&self) -> u64 {
        // SAFETY: as in `write`.
        self.ring.get().map_or(0, |ring| unsafe { ring.as_ref() }.written.load(Relaxed))
    }

    #[inline(always)]
    fn write<const SLOTS: usize>(&self, slots: [(u64, u64); SLOTS]) {
        if let Some(ring) = self.ring.get() {
            // SAFETY: the post keeps the ring as long as the processor lives.
            unsafe { Ring::write(ring, slots) };
        }
    }

    /// Records the time of the entries that follow, if the processor records.
    pub(super) fn tell_time(&self, now: u64) {
        self.write([(Event::Time as u64, now)]);
        self.time.set((now, self.written()));
    }

    /// Records an event at the time `now`, if the processor records.
    #[inline]
    fn happened(&self, event: Event, strand: usize, now: u64, word: u64, argument: u64) {
        if self.is_on() {
            self.happened_slow((strand | event as usize) as u64, now, word, argument);
        }
    }

    #[inline(never)]
    fn happened_slow(&self, what: u64, now: u64, word: u64, argument: u64) {
        let (told, behind) = self.time.get();
        if told != now || self.written() - behind >= SLOTS_PER_TIME {
            self.tell_time(now);
        }
        if argument == 0 {
            self.write([(what, word)]);
        } else {
            self.write([(what, word), (Event::Argument as u64, argument)]);
        }
    }
}

impl Processor {
    /// Returns the number of slots that the processor's ring is to have; 0 if the processor is not to record.
    fn slots_wanted(&self) -> usize {
        if self.recorder.is_refused.get() { 0 } else { self.cluster.runtime().recording().slots_wanted() }
    }

    /// Says whether the processor is to record.
    pub(super) fn is_to_record(&self) -> bool {
        self.slots_wanted() > 0
    }

    /// Begins to record, or stops, as it is to be. Returns the recorder if it is on.
    #[cold]
    pub(super) fn switch_recorder(&self) -> Option<On> {
        let slots = self.slots_wanted();
        if slots > 0 && !self.recorder.is_on() {
            let ring = self.post.ring().get_or_map(slots);
            self.recorder.is_refused.set(ring.is_none());
            self.recorder.ring.set(ring);
            self.open_direct_ways();
            self.set_recording(1);
            self.note(Event::Started, 0, 0);
        } else if slots == 0 && self.recorder.is_on() {
            self.end_record();
        }
        self.recorder.on()
    }

    /// Stops recording, if the processor records.
    pub(super) fn end_record(&self) {
        self.note(Event::Stopped, 0, 0);
        self.set_recording(0);
        self.recorder.ring.set(None);
        self.open_direct_ways();
    }

    fn set_recording(&self, is_recording: u64) {
        if let Some(ring) = self.recorder.ring.get() {
            // SAFETY: as in `write`.
            unsafe { ring.as_ref() }.is_recording.store(is_recording, Relaxed);
        }
    }

    /// Records an event that has no strand, if the processor records.
    #[inline]
    pub(crate) fn note(&self, event: Event, word: u64, argument: u64) {
        self.recorder.happened(event, 0, self.clock.now(), word, argument);
    }

    /// Records an event of a strand, if the processor records.
    #[inline]
    pub(crate) fn note_strand(&self, event: Event, strand: &Strand, word: u64, argument: u64) {
        self.recorder.happened(event, std::ptr::from_ref(strand).addr(), self.clock.now(), word, argument);
    }

    /// Records that drivers have written the slots from the number `first` on.
    pub(super) fn note_looked(&self, first: u64) {
        if self.recorder.written() > first {
            self.note(Event::Looked, first, 0);
        }
    }

    /// Records that a dispatch has held the processor up, if the warden has found so. By the processor, when it has
    /// read its clock.
    pub(super) fn look_for_stall(&self) {
        let hold = self.post.hold();
        if hold != Hold::None {
            self.note_stall(hold);
        }
    }

    #[cold]
    fn note_stall(&self, hold: Hold) {
        let (before, now) = (self.post.pulse(), self.clock.now());
        if now.saturating_sub(before) >= cycles_in_us(HELD_UP_US) {
            self.recorder.happened(Event::Stalled, 0, before, self.post.ring().held(), hold as u64);
        }
    }
}

/// The entries of the description.
pub(crate) const ENTRIES: &[describe::Entry] = &[
    describe::Entry::number("post.ring", Post::RING),
    describe::Entry::number("ring.magic", offset_of!(Ring, magic)),
    describe::Entry::number("ring.magic_value", MAGIC as usize),
    describe::Entry::number("ring.capacity", offset_of!(Ring, capacity)),
    describe::Entry::number("ring.written", offset_of!(Ring, written)),
    describe::Entry::number("ring.recording", offset_of!(Ring, is_recording)),
    describe::Entry::number("ring.slots", size_of::<Ring>()),
    describe::Entry::number("slot.bytes", size_of::<Slot>()),
    describe::Entry::number("slot.what", offset_of!(Slot, what)),
    describe::Entry::number("slot.word", offset_of!(Slot, word)),
    describe::Entry::number("event.bits", EVENT_BITS),
    describe::Entry::number("code.yielded", Event::Yielded as usize),
    describe::Entry::number("code.parked", Event::Parked as usize),
    describe::Entry::number("code.waited", Event::Waited as usize),
    describe::Entry::number("code.moved", Event::Moved as usize),
    describe::Entry::number("code.declined", Event::Declined as usize),
    describe::Entry::number("code.finished", Event::Finished as usize),
    describe::Entry::number("code.idled", Event::Idled as usize),
    describe::Entry::number("code.left", Event::Left as usize),
    describe::Entry::number("code.rested", Event::Rested as usize),
    describe::Entry::number("code.spawned", Event::Spawned as usize),
    describe::Entry::number("code.began", Event::Began as usize),
    describe::Entry::number("code.readied", Event::Readied as usize),
    describe::Entry::number("code.stole", Event::Stole as usize),
    describe::Entry::number("code.stalled", Event::Stalled as usize),
    describe::Entry::number("code.slept", Event::Slept as usize),
    describe::Entry::number("code.resumed", Event::Resumed as usize),
    describe::Entry::number("code.polled", Event::Polled as usize),
    describe::Entry::number("code.called", Event::Called as usize),
    describe::Entry::number("code.looked", Event::Looked as usize),
    describe::Entry::number("code.started", Event::Started as usize),
    describe::Entry::number("code.stopped", Event::Stopped as usize),
    describe::Entry::number("code.time", Event::Time as usize),
    describe::Entry::number("code.argument", Event::Argument as usize),
];

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use crate::{Cluster, Runtime};

    /// Returns the entries of a ring that was not filled, without those about the processor itself.
    fn entries(cluster: &Cluster) -> Vec<(usize, Event, u64, u64)> {
        let post = cluster.shared().all_posts().next().expect("a post");
        let ring = NonNull::new(post.ring().0.load(Relaxed)).expect("a ring");
        // SAFETY: the post keeps the ring.
        let written = unsafe { ring.as_ref() }.written.load(Acquire);
        let mut entries: Vec<(usize, Event, u64, u64)> = Vec::new();
        for number in 0..written {
            // SAFETY: as above; the ring was not filled.
            let slot = unsafe { ring.add(1).cast::<Slot>().add(number as usize).as_ref() };
            let (what, word) = (slot.what.load(Relaxed) as usize, slot.word.load(Relaxed));
            let event = ALL.iter().find(|event| **event as usize == what & EVENT_BITS);
            match event.expect("an event") {
                Event::Time => {}
                Event::Argument => entries.last_mut().expect("an entry before its argument").3 = word,
                event => entries.push((what & !EVENT_BITS, *event, word, 0)),
            }
        }
        entries.retain(|(strand, ..)| *strand != 0);
        entries
    }

    const ALL: [Event; 23] = [
        Event::Yielded,
        Event::Parked,
        Event::Waited,
        Event::Moved,
        Event::Declined,
        Event::Finished,
        Event::Idled,
        Event::Left,
        Event::Rested,
        Event::Spawned,
        Event::Began,
        Event::Readied,
        Event::Stole,
        Event::Stalled,
        Event::Slept,
        Event::Resumed,
        Event::Polled,
        Event::Called,
        Event::Started,
        Event::Stopped,
        Event::Looked,
        Event::Time,
        Event::Argument,
    ];

    #[test]
    fn known_work_is_recorded_in_order() {
        let runtime = Runtime::builder().processors(1).record(1024).build().expect("a runtime");
        let (first, second) = runtime.run(|| {
            let first = crate::current().id();
            let other = crate::spawn(crate::park);
            let second = other.fibre().id();
            crate::yield_now();
            other.fibre().unpark();
            other.join().expect("no panic");
            (first, second)
        });
        let entries = entries(runtime.main_cluster());
        let strand = |id: crate::FibreId| {
            let began = entries.iter().find(|(_, event, _, argument)| {
                *event == Event::Began && format!("{id:?}").contains(&argument.to_string())
            });
            began.expect("a fibre that began").0
        };
        let (first, second) = (strand(first), strand(second));
        let told: Vec<_> = entries.iter().map(|(strand, event, ..)| (*strand, *event)).collect();
        let expected = [
            (first, Event::Began),
            (second, Event::Spawned),
            (first, Event::Yielded),
            (second, Event::Began),
            (second, Event::Parked),
            (second, Event::Readied),
            (first, Event::Waited),
            (second, Event::Finished),
            (first, Event::Readied),
            (first, Event::Finished),
        ];
        assert_eq!(told, expected);
        // A fibre that joins another one waits for that one.
        let join = entries[6].3;
        assert_eq!(join & ((1 << 56) - 1), second as u64);
        assert_ne!(join >> 56, 0, "a reason");
        // All became ready before they ran.
        assert!([2, 4, 6, 7, 9].iter().all(|number| entries[*number].2 != 0));
    }
}
