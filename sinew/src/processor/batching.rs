//! When strands leave calls in the [outbox](super::outbox), and when the processor empties it.
//!
//! A batch pays from two calls on, and a call waits for the batch. So a strand leaves a call only if
//! others are about to do the same: a look at the drivers has made several strands ready, and each of
//! them is *expected* to make a call. The strand with the last expected call makes all of them. If fewer
//! calls come, the processor makes them when it has no other strand to run.
//!
//! When the calls have been made, their strands run before all others: each goes on with the turn that it
//! had. Behind the others, they would be in the midst of their turns for long, with all that they hold, and
//! their memory would have left the cache. Strands that another processor may take stand behind the others.

use super::outbox::{MOST, Taken};
use super::{Processor, Supply};
use crate::base::clock::{cycles, cycles_in_us};
use crate::base::{fork, kernel};
use crate::strand::{Fifo, Ready};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::time::Duration;

/// Calls are left if a look has made at least this number of strands ready: two calls as a batch were
/// measured to be 2 % faster than two calls.
const FEW: u32 = 2;

/// The largest number of calls that are expected: strands of several looks may be ready.
const MOST_EXPECTED: u32 = 256;

/// The processor empties its outbox when the oldest call is this old at a reading of the clock.
const EMPTY_AFTER_US: u64 = 50;

/// Another processor empties an outbox whose oldest call is this old. It looks at this distance.
const HELP_AFTER_US: u64 = 100;

/// An outbox that is emptied later than this by its own processor shows that strands compute for long, or
/// that the kernel has taken the CPU away. The first time, no calls are left for [`REST_US`], and then the
/// CPU time of some batches is measured. If one of them shows that strands compute, the rest is longer.
const LATE_US: u64 = 200;
const REST_US: u64 = 100_000;
const LONGEST_REST_US: u64 = 5_000_000;

/// The number of batches that are measured after a rest. To measure one takes a call of the kernel.
const MEASURED: u32 = 64;

/// No calls are left for this long after the kernel has refused to make them as a batch.
const REFUSED_US: u64 = 1_000_000;

/// What a processor knows of the calls in its outbox. All times are in cycles. Owner: the processor.
pub(super) struct Batching {
    /// The number of strands that are ready and have not made a call. 0 if no calls are to be left.
    expected: Cell<u32>,
    /// When the outbox is to be emptied; `u64::MAX` if it is empty.
    empty_at: Cell<u64>,
    /// No calls are left until then; `u64::MAX` if there is no driver for them.
    rests_until: Cell<u64>,
    /// When to look at the outboxes of others.
    next_help: Cell<u64>,
    /// Strands whose calls have been made, in the order in which they left them.
    resumed: RefCell<Fifo>,
    /// Whether the processor is making the calls of its outbox.
    resumes: Cell<bool>,
    empty_after: u64,
    help_after: u64,
    late: u64,
    /// The length of the last rest.
    rest: Cell<u64>,
    /// The number of batches whose CPU time is still to be measured, because one was late.
    to_measure: Cell<u32>,
    /// The CPU time when the first call of the outbox was left, if it is measured.
    cpu_time: Cell<Option<Duration>>,
}

/// What became of a call that a strand wanted to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It is in the outbox. The strand is signalled when the call has been made.
    Left,
    /// It has been made, with all others of the outbox.
    Made,
    /// The strand has to make it by itself.
    Alone,
}

impl Batching {
    /// `is_possible` says whether a driver makes calls.
    pub(super) fn new(is_possible: bool) -> Batching {
        Batching {
            expected: Cell::new(0),
            empty_at: Cell::new(u64::MAX),
            rests_until: Cell::new(if is_possible { 0 } else { u64::MAX }),
            next_help: Cell::new(0),
            resumed: RefCell::new(Fifo::new()),
            resumes: Cell::new(false),
            empty_after: cycles_in_us(EMPTY_AFTER_US),
            help_after: cycles_in_us(HELP_AFTER_US),
            late: cycles_in_us(LATE_US),
            rest: Cell::new(cycles_in_us(REST_US)),
            to_measure: Cell::new(0),
            cpu_time: Cell::new(None),
        }
    }

    /// Notes that this number of strands became ready together, at the time `now`.
    #[inline]
    pub(super) fn expect(&self, strands: usize, now: u64) {
        if strands >= FEW as usize && now >= self.rests_until.get() {
            let strands = u32::try_from(strands).unwrap_or(MOST_EXPECTED);
            self.expected.set(self.expected.get().saturating_add(strands).min(MOST_EXPECTED));
        }
    }

    /// Says whether strands that become ready now go on with their turns.
    #[inline]
    pub(super) fn resumes(&self) -> bool {
        self.resumes.get()
    }

    /// Lets a strand go on before all others.
    pub(super) fn resume(&self, ready: Ready) {
        self.resumed.borrow_mut().push(ready);
    }

    #[inline]
    pub(super) fn has_resumed(&self) -> bool {
        !self.resumed.borrow().is_empty()
    }

    /// Says whether the outbox is to be emptied at the time `now`.
    #[inline(always)]
    pub(super) fn is_due(&self, now: u64) -> bool {
        now >= self.empty_at.get()
    }

    /// Says whether the outbox may have calls.
    #[inline(always)]
    fn has_calls(&self) -> bool {
        self.empty_at.get() != u64::MAX
    }

    /// Notes that there are calls in the outbox, since the time `now`.
    fn begin(&self, now: u64) {
        self.empty_at.set(now + self.empty_after);
        let to_measure = self.to_measure.get();
        self.to_measure.set(to_measure.saturating_sub(1));
        self.cpu_time.set((to_measure > 0).then(kernel::thread_cpu_time));
    }

    /// Notes that the outbox is emptied at the time `now`.
    fn emptied(&self, now: u64) {
        let due = self.empty_at.replace(u64::MAX);
        if now.saturating_sub(self.late) > due {
            self.emptied_late(now, self.cpu_time.get().map(|before| kernel::thread_cpu_time().saturating_sub(before)));
        }
    }

    /// Rests, unless it is known that the strands have `computed` for a short time only.
    #[cold]
    fn emptied_late(&self, now: u64, computed: Option<Duration>) {
        let rest = match computed {
            Some(computed) if computed < Duration::from_micros(LATE_US) => return,
            Some(_) => (2 * self.rest.get()).min(cycles_in_us(LONGEST_REST_US)),
            None => cycles_in_us(REST_US),
        };
        self.rest.set(rest);
        self.to_measure.set(MEASURED);
        self.pause_until(now + rest);
    }

    fn pause_until(&self, time: u64) {
        self.expected.set(0);
        self.rests_until.set(time);
    }
}

impl Processor {
    /// Says whether the running strand is to leave a call rather than to make it.
    #[inline]
    pub(crate) fn expects_calls(&self) -> bool {
        self.batching.expected.get() != 0
    }

    /// Leaves a call of the running strand, or makes it with all others.
    pub(crate) fn leave_call(&self, call: NonNull<()>) -> Leaving {
        let (batching, outbox) = (&self.batching, self.post.outbox());
        batching.expected.set(batching.expected.get().saturating_sub(1));
        if batching.expected.get() == 0 || outbox.room() <= 1 {
            batching.emptied(cycles());
            let Some(calls) = outbox.take() else { return Leaving::Alone };
            self.make_calls(calls, Some(call));
            return Leaving::Made;
        }
        let now = self.clock.now();
        if !outbox.leave(call, now) {
            return Leaving::Alone;
        }
        if !batching.has_calls() {
            batching.begin(now);
        }
        Leaving::Left
    }

    /// Empties the outbox of a processor that has no strand to run. Returns whether there were calls.
    pub(super) fn empty_outbox(&self) -> bool {
        self.batching.expected.set(0);
        if !self.batching.has_calls() {
            return false;
        }
        self.empty_outbox_now();
        true
    }

    #[cold]
    pub(super) fn empty_outbox_now(&self) {
        self.batching.emptied(cycles());
        // If there are none, another processor has helped.
        if let Some(calls) = self.post.outbox().take() {
            self.make_calls(calls, None);
        }
    }

    /// Makes the calls, and `own`, of this processor.
    fn make_calls(&self, calls: Taken<'_>, own: Option<NonNull<()>>) {
        fork::check();
        self.batching.resumes.set(true);
        let is_good = self.cluster.drivers().carry_out(self.post.id(), calls, own);
        self.batching.resumes.set(false);
        if !is_good {
            self.batching.pause_until(cycles() + cycles_in_us(REFUSED_US));
        }
    }

    /// Says whether the strand runs here in any case, and competes with others. A strand that another
    /// processor may take stands where that one finds it.
    pub(super) fn may_resume(&self, ready: &Ready) -> bool {
        self.may_keep(ready)
            || (self.cluster.serving() == 1 && ready.strand().bound_to().is_none() && self.is_for_scheduler(ready))
    }

    /// Returns the next of the strands whose calls have been made, or any other.
    pub(super) fn next_resumed(&self) -> Option<Ready> {
        let next = self.batching.resumed.borrow_mut().pop();
        if !self.batching.has_resumed() {
            self.draw_from(Supply::Either);
        }
        next.or_else(|| self.next_of_either())
    }

    /// Makes the calls of processors that have not done so in time: they may be held up.
    #[inline]
    pub(super) fn help(&self, now: u64) {
        if now >= self.batching.next_help.get() {
            self.batching.next_help.set(now + self.batching.help_after);
            self.help_others(now.saturating_sub(self.batching.help_after));
        }
    }

    fn help_others(&self, before: u64) {
        for post in self.cluster.other_posts(&self.post).filter(|post| post.outbox().has_calls_before(before)) {
            if let Some(calls) = post.outbox().take() {
                fork::check();
                self.cluster.drivers().carry_out(post.id(), calls, None);
            }
        }
    }
}

const _: () = assert!(MOST >= 2, "the last call is not left");

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_are_expected_of_several_strands_only() {
        let batching = Batching::new(true);
        batching.expect(FEW as usize - 1, 1);
        assert_eq!(batching.expected.get(), 0);
        batching.expect(FEW as usize, 1);
        assert_eq!(batching.expected.get(), FEW);
        batching.expect(usize::MAX, 1);
        assert_eq!(batching.expected.get(), MOST_EXPECTED);
    }

    #[test]
    fn none_are_expected_without_a_driver_for_them() {
        let batching = Batching::new(false);
        batching.expect(100, u64::MAX - 1);
        assert_eq!(batching.expected.get(), 0);
    }

    #[test]
    fn none_are_expected_for_a_while_after_a_batch_was_late() {
        let (batching, rest, due) = (Batching::new(true), cycles_in_us(REST_US), 1_000_000_000);
        let are_expected = |now| {
            batching.expect(100, now);
            batching.expected.take() == 100
        };
        batching.empty_at.set(due);
        batching.emptied(due + batching.late);
        assert!(are_expected(due), "it was in time");
        batching.empty_at.set(due);
        let late = due + batching.late + 1;
        batching.emptied(late);
        assert!(!are_expected(late + rest - 1) && are_expected(late + rest));
        assert_eq!(batching.cpu_time.get(), None);
    }

    #[test]
    fn rests_become_longer_while_strands_compute() {
        let (batching, rest) = (Batching::new(true), cycles_in_us(REST_US));
        let computed = Some(Duration::from_millis(10));
        batching.emptied_late(rest, None);
        assert_eq!(batching.rests_until.get(), 2 * rest);
        batching.emptied_late(2 * rest, Some(Duration::from_micros(1)));
        assert_eq!(batching.rests_until.get(), 2 * rest, "the kernel had taken the CPU away");
        batching.emptied_late(2 * rest, computed);
        assert_eq!(batching.rests_until.get(), 4 * rest);
        batching.emptied_late(4 * rest, computed);
        assert_eq!(batching.rests_until.get(), 8 * rest);
        (0..100).for_each(|_| batching.emptied_late(8 * rest, computed));
        assert_eq!(batching.rests_until.get(), 8 * rest + cycles_in_us(LONGEST_REST_US));
    }

    #[test]
    fn batches_are_measured_after_a_late_one_only() {
        let batching = Batching::new(true);
        let is_measured = || {
            batching.begin(1);
            batching.cpu_time.get().is_some()
        };
        assert!(!is_measured());
        batching.emptied_late(1, None);
        assert!((0..MEASURED).all(|_| is_measured()));
        assert!(!is_measured());
    }
}
