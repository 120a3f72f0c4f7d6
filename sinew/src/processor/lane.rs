//! The lane: strands that may run on one processor only.

use crate::base::clock::cycles_in_us;
use crate::sched::Claim;
use crate::strand::{Fifo, Levels, PassedOver, Priority, Ready};
use std::cell::{Cell, RefCell};

/// A background strand that has waited this long competes with other strands. A busy processor
/// relieves one such strand in this time. Unmeasured: 100 turns a second cost the others nothing, and
/// are enough for a lock to be released.
const BACKGROUND_WAIT_US: u64 = 10_000;

/// The strands that are bound to a processor and are ready. Owner: the processor.
pub(super) struct Lane {
    levels: RefCell<Levels>,
    /// Background strands. They run when the processor finds nothing else, or after a while.
    background: RefCell<Fifo>,
    /// Counts how often the less urgent of the lane and the scheduler's queue was passed over.
    passed_over: RefCell<PassedOver>,
    /// When the next background strand may compete with others.
    next_background: Cell<u64>,
    background_wait: u64,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane {
            levels: RefCell::new(Levels::new()),
            background: RefCell::new(Fifo::new()),
            passed_over: RefCell::new(PassedOver::new()),
            next_background: Cell::new(0),
            background_wait: cycles_in_us(BACKGROUND_WAIT_US),
        }
    }

    /// Returns the address of the number of strands that compete.
    pub(super) fn length_word(&self) -> usize {
        self.levels.as_ptr().addr() + Levels::LENGTH
    }

    /// Enters a strand that is bound to this processor and competes with others.
    #[inline]
    pub(super) fn push(&self, ready: Ready) {
        self.levels.borrow_mut().push(ready);
    }

    /// Enters a background strand that is bound to this processor. It does not compete with others.
    pub(super) fn push_background(&self, ready: Ready) {
        self.background.borrow_mut().push(ready);
    }

    /// Enters any strand that is bound to this processor.
    pub(super) fn receive(&self, ready: Ready) {
        if ready.priority() == Priority::Background { self.push_background(ready) } else { self.push(ready) }
    }

    /// Does `push` and `pop` in one step.
    #[inline(always)]
    pub(super) fn exchange(&self, ready: Ready) -> Ready {
        let mut levels = self.levels.borrow_mut();
        let next = levels.exchange(ready);
        levels.prefetch_head();
        next
    }

    #[inline]
    pub(super) fn pop(&self) -> Option<Ready> {
        let mut levels = self.levels.borrow_mut();
        let next = levels.pop();
        levels.prefetch_head();
        next
    }

    /// Says whether the lane has no strand that competes.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.borrow().is_empty()
    }

    /// Says whether the scheduler's queue, whose claim is `queue`, has the next turn.
    pub(super) fn gives_way_to(&self, queue: Option<Claim>) -> bool {
        let claim = self.levels.borrow().claim();
        queue.is_some_and(|queue| claim.is_none_or(|claim| self.goes_first(queue, claim)))
    }

    fn goes_first(&self, queue: Claim, lane: Claim) -> bool {
        let is_first = queue < lane;
        let less_urgent = if is_first { lane } else { queue };
        let may_pass = queue.priority == lane.priority || self.passed_over.borrow_mut().may_be(less_urgent.ready_at);
        is_first == may_pass
    }

    /// Takes the background strand that has waited longest, if it became ready at `ready_at` or
    /// before: one of the lane, or one of the cluster. `deferred` takes a strand of the cluster that
    /// became ready at the given time or before.
    pub(super) fn take_background(&self, ready_at: u64, deferred: impl Fn(u64) -> Option<Ready>) -> Option<Ready> {
        let mut background = self.background.borrow_mut();
        match background.ready_at() {
            Some(since) if since <= ready_at => deferred(since).or_else(|| background.pop()),
            _ => deferred(ready_at),
        }
    }

    /// Lets one background strand compete if it has waited for [`BACKGROUND_WAIT_US`]. Returns
    /// whether there was one. See [`take_background`](Lane::take_background) for `deferred`.
    pub(super) fn relieve_background(&self, now: u64, deferred: impl Fn(u64) -> Option<Ready>) -> bool {
        if now < self.next_background.get() {
            return false;
        }
        let Some(strand) = self.take_background(now.saturating_sub(self.background_wait), deferred) else {
            return false;
        };
        self.next_background.set(now + self.background_wait);
        self.levels.borrow_mut().push(strand);
        true
    }
}
