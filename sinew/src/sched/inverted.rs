//! The inverted shared ready-stack of the Fred runtime: a counter says whether
//! there is anything to do at all; where there is not, processors wait on a
//! stack and arriving strands are handed to them. The folder's README tells
//! the whole story.

use super::seats::Seats;
use super::{Claim, Effort, Local, Place, ProcessorId, Ready, Scheduler, Wake};
use crate::spin::SpinLock;
use crate::strand::{Inbox, Levels};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};

/// One dispatch in so many looks into the staging queue first, which a
/// processor that never runs out of its own work would not reach otherwise.
/// The figure is Go's, for the same purpose.
const STAGING_TURN: u32 = 61;

/// Local queues, a staging queue, stealing along a ring, and the *inverted
/// shared ready-stack*: one counter of ready strands that, when negative,
/// counts waiting processors.
#[derive(Default)]
pub struct Inverted {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Ready strands, less the processors that wait or are about to.
    counter: CachePadded<AtomicI64>,
    waiting: CachePadded<SpinLock<Waiting>>,
    /// What arrives from elsewhere.
    staging: CachePadded<Strands>,
    ring: Seats<Station>,
}

/// The inverted stack and its helper.
struct Waiting {
    processors: Vec<(ProcessorId, Arc<Station>)>,
    /// Strands for processors that have counted themselves and are not on the
    /// stack yet.
    early: Levels,
}

impl Default for SpinLock<Waiting> {
    fn default() -> Self {
        SpinLock::new(Waiting { processors: Vec::new(), early: Levels::new() })
    }
}

/// A processor's part of the ring.
#[derive(Default)]
struct Station {
    local: CachePadded<Strands>,
    /// Where a waiting processor is handed its strand.
    handed: Inbox,
}

/// A queue and its length, so that looking in vain takes no lock.
struct Strands {
    queue: SpinLock<Levels>,
    len: AtomicUsize,
}

impl Default for Strands {
    fn default() -> Self {
        Strands { queue: SpinLock::new(Levels::new()), len: AtomicUsize::new(0) }
    }
}

impl Strands {
    fn change<T>(&self, change: impl FnOnce(&mut Levels) -> T) -> T {
        let mut queue = self.queue.lock();
        let result = change(&mut queue);
        self.len.store(queue.len(), Relaxed);
        result
    }

    fn push(&self, strand: Ready) {
        self.change(|queue| queue.push(strand));
    }

    fn pop(&self) -> Option<Ready> {
        if self.len.load(Relaxed) == 0 { None } else { self.change(Levels::pop) }
    }

    fn claim(&self) -> Option<Claim> {
        if self.len.load(Relaxed) == 0 { None } else { self.queue.lock().claim() }
    }
}

impl Shared {
    /// Counts a strand and gives it to a waiting processor if there is one,
    /// else to `queue`.
    #[inline]
    fn enqueue(&self, strand: Ready, queue: &Strands) -> Wake {
        // AcqRel: the counter orders arrivals and departures among themselves.
        if self.counter.fetch_add(1, AcqRel) >= 0 {
            queue.push(strand);
            return Wake::Nobody;
        }
        self.hand_over(strand)
    }

    #[cold]
    fn hand_over(&self, strand: Ready) -> Wake {
        let mut waiting = self.waiting.lock();
        let Some((processor, station)) = waiting.processors.pop() else {
            waiting.early.push(strand);
            return Wake::Nobody;
        };
        drop(waiting);
        station.handed.put(strand);
        Wake::Processor(processor)
    }
}

impl Scheduler for Inverted {
    fn name(&self) -> &'static str {
        "inverted"
    }

    fn attach(&self, place: Place) -> Box<dyn Local> {
        let (seat, station) = self.shared.ring.take();
        let shared = Arc::clone(&self.shared);
        let processor = place.processor();
        Box::new(End { shared, station, seat, processor, waiting: Cell::new(false), turn: Cell::new(0) })
    }

    fn inject(&self, strand: Ready, _now: u64) -> Wake {
        self.shared.enqueue(strand, &self.shared.staging)
    }
}

struct End {
    shared: Arc<Shared>,
    station: Arc<Station>,
    seat: usize,
    processor: ProcessorId,
    /// Whether the processor is on the inverted stack, or was until somebody
    /// took it off to hand it a strand.
    waiting: Cell<bool>,
    turn: Cell<u32>,
}

impl Local for End {
    fn push(&self, strand: Ready, _now: u64) -> Wake {
        self.shared.enqueue(strand, &self.station.local)
    }

    fn next(&self, _now: u64) -> Option<Ready> {
        if self.waiting.get() {
            return self.take_handed();
        }
        // AcqRel: see `enqueue`. Counting comes first: a strand is reserved, or
        // the processor is known to wait.
        if self.shared.counter.fetch_sub(1, AcqRel) > 0 { Some(self.find()) } else { self.wait() }
    }

    /// The number of ready strands does not change, nor does the counter.
    fn exchange(&self, strand: Ready, _now: u64) -> Ready {
        if self.is_staging_turn()
            && let Some(staged) = self.shared.staging.pop()
        {
            self.station.local.push(strand);
            return staged;
        }
        self.station.local.change(|queue| queue.exchange(strand))
    }

    fn claim(&self) -> Option<Claim> {
        self.station.local.claim().or_else(|| self.shared.staging.claim())
    }

    fn search(&self, now: u64, _effort: Effort) -> Option<Ready> {
        self.next(now)
    }

    fn retract(&self, _now: u64) -> Wake {
        if !self.waiting.get() {
            return Wake::Nobody;
        }
        // To stop waiting is to be woken by nobody: it counts as an arrival,
        // which claims a waiting processor, this one. If all are claimed, an
        // arrival is on its way to this one, unless another that comes to wait
        // meanwhile is picked in its place: then there is one to claim again.
        let claim = |counter| (counter < 0).then_some(counter + 1);
        while self.shared.counter.fetch_update(AcqRel, Relaxed, claim).is_err() {
            if let Some(strand) = self.take_handed() {
                return self.shared.enqueue(strand, &self.station.local);
            }
            std::thread::yield_now();
        }
        let mut waiting = self.shared.waiting.lock();
        if let Some(place) = waiting.processors.iter().position(|(id, _)| *id == self.processor) {
            waiting.processors.remove(place);
            self.waiting.set(false);
            return Wake::Nobody;
        }
        drop(waiting);
        // Another arrival has picked this processor. The claim is good for one
        // more that waits: it gets that arrival's strand.
        self.shared.hand_over(self.await_handed())
    }

    /// Moves what is here to the staging queue, where it stays counted.
    fn drain(&self) -> Option<Ready> {
        let left = self.station.local.change(Levels::take_all);
        self.shared.staging.change(|queue| queue.append(left));
        self.shared.ring.leave(self.seat);
        None
    }
}

impl End {
    fn is_staging_turn(&self) -> bool {
        self.turn.set(self.turn.get().wrapping_add(1));
        self.turn.get().is_multiple_of(STAGING_TURN)
    }

    /// Finds the strand that the counter has reserved: it is in some queue, or
    /// will be as soon as whoever counted it has put it there.
    fn find(&self) -> Ready {
        if self.is_staging_turn()
            && let Some(staged) = self.shared.staging.pop()
        {
            return staged;
        }
        loop {
            let found = self.station.local.pop().or_else(|| self.shared.staging.pop()).or_else(|| self.steal());
            match found {
                Some(strand) => return strand,
                None => std::thread::yield_now(),
            }
        }
    }

    fn steal(&self) -> Option<Ready> {
        self.shared.ring.others(self.seat).find_map(|station| station.local.pop())
    }

    /// Takes a strand that came early, or enters the inverted stack.
    #[cold]
    fn wait(&self) -> Option<Ready> {
        let mut waiting = self.shared.waiting.lock();
        let early = waiting.early.pop();
        if early.is_none() {
            waiting.processors.push((self.processor, Arc::clone(&self.station)));
            self.waiting.set(true);
        }
        early
    }

    /// The strand that somebody is about to hand to this processor.
    #[cold]
    fn await_handed(&self) -> Ready {
        loop {
            if let Some(strand) = self.take_handed() {
                return strand;
            }
            std::thread::yield_now();
        }
    }

    fn take_handed(&self) -> Option<Ready> {
        let mut handed = self.station.handed.take_all();
        let strand = handed.pop();
        debug_assert!(handed.is_empty());
        self.waiting.set(strand.is_none());
        strand
    }
}
