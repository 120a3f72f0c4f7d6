//! A processor's own end: what it runs next, and where a strand goes that becomes ready on it.

use super::Shared;
use super::queue::Queue;
use super::station::Station;
use super::worth::{Shelf, Worth};
use crate::base::clock::cycles_in_us;
use crate::base::spin::SpinGuard;
use crate::sched::meter::Attempts;
use crate::sched::presence::Pulse;
use crate::sched::victims::{ORDER_LASTS_BEATS, Victims};
use crate::sched::{BEAT_US, Claim, Effort, Local, Placement, Ready, Wake};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A single strand that is older than this is not about to be run by its own processor. As in
/// [`Fair`](crate::sched::Fair).
const YOUNG_US: u64 = 2;

/// A processor that has not used its end of the scheduler for this long is held up, and others take what is
/// in its queue, worth it or not. The watch of a sleeping processor looks after 50 µs and then more seldom,
/// up to 1 ms; handlers of events take some microseconds. Unmeasured beyond that.
const HELD_UP_US: u64 = 200;

/// A processor's own end.
pub(super) struct End {
    pub(super) shared: Arc<Shared>,
    pub(super) placement: Placement,
    pub(super) index: usize,
    pub(super) station: Arc<Station>,
    pulse: Pulse,
    pub(super) attempts: Attempts,
    /// The distance along the table to the station that was looked at last at a beat.
    pub(super) ahead: Cell<usize>,
    pub(super) victims: RefCell<Victims>,
    pub(super) order_lasts: u64,
    pub(super) young: u64,
    pub(super) held_up: u64,
}

impl End {
    pub(super) fn new(shared: &Arc<Shared>, placement: Placement) -> End {
        let (index, station) = shared.stations.take();
        End {
            shared: Arc::clone(shared),
            index,
            pulse: Pulse::settle(station.presence(), &placement),
            station,
            attempts: Attempts::default(),
            ahead: Cell::new(0),
            victims: RefCell::new(Victims::default()),
            order_lasts: cycles_in_us(BEAT_US) * ORDER_LASTS_BEATS,
            young: cycles_in_us(YOUNG_US),
            held_up: cycles_in_us(HELD_UP_US),
            placement,
        }
    }
}

impl Local for End {
    fn push(&self, strand: Ready, now: u64) -> Wake {
        self.show_pulse(now);
        if let Some(seat) = self.other_seat_of(&strand) {
            return self.shared.send(seat, strand, now);
        }
        let worth = self.shared.worth();
        let mut queue = self.station.lock();
        let shelf = queue.push(strand, self.index, &worth);
        let wake = wake_for(shelf, queue.len());
        self.station.close(queue, &worth);
        wake
    }

    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, now: u64, tell: &mut dyn FnMut(Wake)) {
        self.show_pulse(now);
        let worth = self.shared.worth();
        let (mut queue, mut wake) = (None, None);
        for strand in strands {
            if let Some(seat) = self.other_seat_of(&strand) {
                queue.take().into_iter().for_each(|queue| self.station.close(queue, &worth));
                tell(self.shared.send(seat, strand, now));
                continue;
            }
            let queue = queue.get_or_insert_with(|| self.station.lock());
            let shelf = queue.push(strand, self.index, &worth);
            if wake != Some(Wake::Backlog) {
                wake = Some(wake_for(shelf, queue.len()));
            }
        }
        queue.into_iter().for_each(|queue| self.station.close(queue, &worth));
        wake.into_iter().for_each(tell);
    }

    fn next(&self, now: u64) -> Option<Ready> {
        self.show_pulse(now);
        let next = if self.is_empty() { None } else { self.pop() };
        self.show_waiting(next.is_none());
        next
    }

    fn exchange(&self, strand: Ready, now: u64) -> Result<Ready, Ready> {
        self.show_pulse(now);
        if self.is_empty() {
            return Ok(strand);
        }
        let worth = self.shared.worth();
        let mut queue = self.lock_and_unpack(&worth);
        queue.push(strand, self.index, &worth);
        Ok(self.pop_from(queue, &worth).expect("a strand was pushed just now"))
    }

    fn claim(&self) -> Option<Claim> {
        if self.is_empty() {
            return None;
        }
        let worth = self.shared.worth();
        let queue = self.lock_and_unpack(&worth);
        let claim = queue.claim();
        self.station.close(queue, &worth);
        claim
    }

    fn search(&self, now: u64, effort: Effort) -> Option<Ready> {
        let found = self.steal(now, effort);
        if found || effort == Effort::Greedy { self.next(now) } else { None }
    }

    fn retract(&self, _now: u64) -> Wake {
        self.show_waiting(false);
        Wake::Nobody
    }

    fn beat(&self, now: u64) {
        let since_last = self.pulse.beat(self.station.presence(), &self.placement, now);
        self.rescue(since_last, now);
    }

    fn drain(&self) -> Option<Ready> {
        self.pulse.leave(self.station.presence());
        let next = self.pop();
        if next.is_none() {
            self.shared.stations.leave(self.index);
        }
        next
    }
}

impl End {
    /// Notes that the processor is not held up, at most once in a beat.
    fn show_pulse(&self, now: u64) {
        self.pulse.pass(self.station.presence(), &self.placement, now);
    }

    fn show_waiting(&self, is_waiting: bool) {
        let has_changed = self.pulse.set_waiting(self.station.presence(), is_waiting);
        let worth = self.shared.worth();
        if has_changed && is_waiting && worth.counts_letters() {
            let mut queue = self.station.lock();
            queue.set_running(0);
            self.station.close(queue, &worth);
        }
    }

    fn is_empty(&self) -> bool {
        self.station.len() == 0 && self.station.inbox().is_empty()
    }

    fn lock_and_unpack(&self, worth: &Worth) -> SpinGuard<'_, Queue> {
        let mut queue = self.station.lock();
        if !self.station.inbox().is_empty() {
            self.station.unpack(&mut queue, self.index, worth);
        }
        queue
    }

    fn pop(&self) -> Option<Ready> {
        let worth = self.shared.worth();
        self.pop_from(self.lock_and_unpack(&worth), &worth)
    }

    fn pop_from(&self, mut queue: SpinGuard<'_, Queue>, worth: &Worth) -> Option<Ready> {
        let next = queue.pop();
        queue.set_running(next.as_ref().map_or(0, |(_, weight)| weight.letters));
        self.station.close(queue, worth);
        next.map(|(strand, _)| strand)
    }

    /// Returns the station that a colour is to be sent to: another processor ran it last, and has not left. If that
    /// processor waits, a colour is sent there only if it is worth more than a steal costs. To wake a processor
    /// costs more than that, and here the colour runs soon.
    fn other_seat_of(&self, strand: &Ready) -> Option<&Station> {
        let weight = strand.weight();
        let (index, seat) = self.shared.seat_of(strand, weight)?;
        let stays = index == self.index || (seat.presence().is_waiting() && !self.shared.worth().is_worthy(weight));
        (!stays).then_some(&**seat)
    }
}

/// Returns the wake for a strand that is on this shelf of a queue of `len` strands. A colour that is not worth
/// a steal is left to its processor: a sleeper is needed only to keep watch.
fn wake_for(shelf: Option<Shelf>, len: u32) -> Wake {
    if shelf.is_some() && len > 1 { Wake::Backlog } else { Wake::Lone }
}
