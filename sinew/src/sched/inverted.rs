//! The inverted shared ready-stack of the Fred runtime: a counter says whether any strand is ready.
//! If none is, processors wait on a stack and arriving strands are handed to them. The folder's
//! README has the protocol.

mod strands;

use super::stations::Stations;
use super::{Claim, Effort, Local, Placement, ProcessorId, Ready, Scheduler, Wake};
use crate::base::atomic::{AtomicI64, AtomicU64, Relaxed, yield_now};
use crate::base::clock::cycles_in_us;
use crate::base::spin::SpinLock;
use crate::strand::{Inbox, Levels};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;
use strands::Strands;

/// One dispatch in this many looks into the staging queue first. A processor that never runs out
/// of its own work would not look there otherwise. The figure is Go's, for the same purpose.
const STAGING_TURN: u32 = 61;

/// A single strand that is kept for longer than this is not about to be run by the processor that
/// keeps it. As in [`Fair`](super::Fair).
const YOUNG_US: u64 = 2;

/// A processor is held up when its last beat is this many times as long ago as the time between
/// the last two beats of the processor that looks. That is 48 µs if strands are short, about what
/// [`Fair`](super::Fair) has. Unmeasured beyond that.
const HELD_UP_BEATS: u64 = 3;

/// Local queues, a staging queue, stealing along a ring, and the *inverted shared ready-stack*: one
/// counter of ready strands that, when negative, counts waiting processors. The one strand that a
/// processor runs next anyway is not counted.
#[derive(Default)]
pub struct Inverted {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The number of ready strands without those that are kept, less the number of processors that
    /// wait or are about to. Relaxed everywhere: the counter only counts. Strands themselves pass
    /// through the locks of `waiting` and of the queues, or through an inbox, and a processor that
    /// the counter has promised a strand looks until it finds one.
    counter: CachePadded<AtomicI64>,
    waiting: CachePadded<SpinLock<Waiting>>,
    /// Strands that arrive from elsewhere.
    staging: CachePadded<Strands>,
    ring: Stations<Station>,
}

/// The inverted stack, and the strands that came too early for it.
struct Waiting {
    processors: Vec<(ProcessorId, Arc<Station>)>,
    /// Strands for processors that have counted themselves and are not on the stack yet.
    early: Levels,
}

impl Default for SpinLock<Waiting> {
    fn default() -> Self {
        SpinLock::new(Waiting { processors: Vec::new(), early: Levels::new() })
    }
}

/// A processor's station in the ring.
#[derive(Default)]
struct Station {
    local: CachePadded<Strands>,
    /// When its processor had its last beat. Written by that processor only.
    last_beat: CachePadded<AtomicU64>,
    /// Where a waiting processor gets its strand.
    handed: Inbox,
}

impl Shared {
    /// Counts a strand and gives it to a waiting processor. Puts it into `queue` if no processor
    /// waits.
    #[inline]
    fn enqueue(&self, strand: Ready, queue: &Strands) -> Wake {
        if self.counter.fetch_add(1, Relaxed) >= 0 {
            queue.push(strand);
            return Wake::Nobody;
        }
        self.hand_over(strand)
    }

    /// Gives a counted strand to the processor that came to wait last.
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

    fn attach(&self, placement: Placement) -> Box<dyn Local> {
        let (index, station) = self.shared.ring.take();
        let shared = Arc::clone(&self.shared);
        Box::new(End {
            shared,
            station,
            index,
            placement,
            waiting: Cell::new(false),
            turn: Cell::new(0),
            ahead: Cell::new(0),
            young: cycles_in_us(YOUNG_US),
        })
    }

    fn inject(&self, strand: Ready, _now: u64) -> Wake {
        self.shared.enqueue(strand, &self.shared.staging)
    }
}

struct End {
    shared: Arc<Shared>,
    station: Arc<Station>,
    index: usize,
    placement: Placement,
    /// Whether the processor is on the inverted stack, or has been taken off it by a thread that
    /// hands it a strand.
    waiting: Cell<bool>,
    /// Counts dispatches, for [`STAGING_TURN`].
    turn: Cell<u32>,
    /// The distance along the ring to the station that was looked at last.
    ahead: Cell<usize>,
    young: u64,
}

impl Local for End {
    fn push(&self, strand: Ready, now: u64) -> Wake {
        let local = &self.station.local;
        if local.is_empty() {
            local.keep(strand, now);
            return Wake::Lone;
        }
        self.shared.enqueue(strand, local)
    }

    fn next(&self, _now: u64) -> Option<Ready> {
        if let Some(kept) = self.station.local.take_kept() {
            return Some(self.staged_in_turn(kept).unwrap_or_else(|kept| kept));
        }
        if self.waiting.get() {
            return self.take_handed();
        }
        // Counting comes first: either a strand is reserved, or the processor is known to wait.
        if self.shared.counter.fetch_sub(1, Relaxed) > 0 { Some(self.find()) } else { self.wait() }
    }

    /// Neither the number of ready strands nor the counter changes.
    fn exchange(&self, strand: Ready, _now: u64) -> Result<Ready, Ready> {
        Ok(self.staged_in_turn(strand).unwrap_or_else(|strand| self.station.local.exchange(strand)))
    }

    fn claim(&self) -> Option<Claim> {
        self.station.local.claim().or_else(|| self.shared.staging.claim())
    }

    /// Strands that others keep are not counted. A processor that takes one still waits, until it
    /// retracts.
    fn search(&self, now: u64, effort: Effort) -> Option<Ready> {
        let left = || self.others().find_map(|station| station.local.take_left(now, self.young, effort));
        self.next(now).or_else(|| left().inspect(|_| self.placement.count_stolen(1)))
    }

    fn retract(&self, _now: u64) -> Wake {
        if !self.waiting.get() {
            return Wake::Nobody;
        }
        // To stop waiting counts as an arrival, which claims a waiting processor: this one. If all
        // are claimed, an arrival is on its way to this one. Another processor that comes to wait
        // meanwhile may be picked instead of this one: then there is one to claim again.
        let claim = |counter| (counter < 0).then_some(counter + 1);
        while self.shared.counter.fetch_update(Relaxed, Relaxed, claim).is_err() {
            if let Some(strand) = self.take_handed() {
                return self.shared.enqueue(strand, &self.station.local);
            }
            yield_now();
        }
        let mut waiting = self.shared.waiting.lock();
        if let Some(index) = waiting.processors.iter().position(|(id, _)| *id == self.placement.processor()) {
            waiting.processors.remove(index);
            self.waiting.set(false);
            return Wake::Nobody;
        }
        drop(waiting);
        // Another arrival has picked this processor. The claim is good for one more that waits:
        // that one gets the strand of the arrival.
        self.shared.hand_over(self.await_handed())
    }

    fn beat(&self, now: u64) {
        let since_last = now.saturating_sub(self.station.last_beat.load(Relaxed));
        self.station.last_beat.store(now, Relaxed);
        let limit = since_last.saturating_mul(HELD_UP_BEATS);
        let Some(other) = self.next_along_the_ring() else { return };
        if now.saturating_sub(other.last_beat.load(Relaxed)) > limit
            && !other.local.is_empty()
            && let Some(taken) = other.local.take_neglected(now, limit)
        {
            self.placement.count_rescued(taken.len());
            self.station.local.prepend(taken, now);
        }
    }

    /// Gives up the strands that are kept, then moves the rest to the staging queue, where they
    /// stay counted.
    fn drain(&self) -> Option<Ready> {
        let kept = self.station.local.take_kept();
        if kept.is_none() {
            self.station.local.move_to(&self.shared.staging);
            self.shared.ring.leave(self.index);
        }
        kept
    }
}

impl End {
    fn is_staging_turn(&self) -> bool {
        self.turn.set(self.turn.get().wrapping_add(1));
        self.turn.get().is_multiple_of(STAGING_TURN)
    }

    /// Returns a staged strand if it is time for one. `strand`, which was not counted, is put into
    /// the local queue and counted instead of it. Otherwise gives `strand` back.
    fn staged_in_turn(&self, strand: Ready) -> Result<Ready, Ready> {
        if self.is_staging_turn()
            && let Some(staged) = self.shared.staging.pop()
        {
            self.station.local.push(strand);
            return Ok(staged);
        }
        Err(strand)
    }

    fn others(&self) -> impl Iterator<Item = &Arc<Station>> {
        self.shared.ring.others(self.index)
    }

    /// Returns each of the other stations in turn.
    fn next_along_the_ring(&self) -> Option<&Arc<Station>> {
        let ahead = (self.ahead.get() + 1) % (self.shared.ring.used() - 1).max(1);
        self.ahead.set(ahead);
        self.others().nth(ahead)
    }

    /// Finds the strand that the counter has reserved. It is in some queue, or will be there as soon
    /// as the thread that counted it has put it down.
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
                None => yield_now(),
            }
        }
    }

    fn steal(&self) -> Option<Ready> {
        self.others().find_map(|station| station.local.pop()).inspect(|_| self.placement.count_stolen(1))
    }

    /// Takes a strand that came early, or enters the inverted stack.
    #[cold]
    fn wait(&self) -> Option<Ready> {
        let mut waiting = self.shared.waiting.lock();
        let early = waiting.early.pop();
        if early.is_none() {
            waiting.processors.push((self.placement.processor(), Arc::clone(&self.station)));
            self.waiting.set(true);
        }
        early
    }

    /// Returns the strand that another thread is about to hand to this processor.
    #[cold]
    fn await_handed(&self) -> Ready {
        loop {
            if let Some(strand) = self.take_handed() {
                return strand;
            }
            yield_now();
        }
    }

    /// Takes the strand that this processor was handed, if it is there. It does not wait any more then.
    fn take_handed(&self) -> Option<Ready> {
        let mut handed = self.station.handed.take_all();
        let strand = handed.pop();
        debug_assert!(handed.is_empty());
        self.waiting.set(strand.is_none());
        strand
    }
}
