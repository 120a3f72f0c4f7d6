//! A processor's own end: what it runs next, and where a strand goes that becomes ready on it.

use super::deque::{Deque, Turn};
use super::station::Station;
use super::{Deques, Place, Policy};
use crate::base::clock::cycles_in_us;
use crate::base::spin::SpinGuard;
use crate::sched::dice::Dice;
use crate::sched::meter::Attempts;
use crate::sched::presence::Pulse;
use crate::sched::victims::{ORDER_LASTS_BEATS, Victims};
use crate::sched::{BEAT_US, Claim, Effort, Local, Placement, Ready, Wake};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A single strand that is older than this is not about to be run by its own processor. As in
/// [`Fair`](crate::sched::Fair).
const YOUNG_US: u64 = 2;

/// A processor that has not used its end of the scheduler for this long is held up. As in
/// [`Coloured`](crate::sched::Coloured).
const HELD_UP_US: u64 = 200;

/// A strand that has waited for this long is stale: its processor runs it although newer ones are ready. The watch
/// of a sleeping processor looks every millisecond at the latest, so no other promise is better. Unmeasured.
const STALE_US: u64 = 1_000;

/// Between two turns of stale strands there are at least this many others. Where strands are so long that every turn has
/// its beat, the order stays that of a stack. Unmeasured.
const TURNS_PER_STALE: u32 = 8;

/// A processor's own end.
pub(in crate::sched) struct End<P> {
    pub(in crate::sched) deques: Arc<Deques<P>>,
    pub(in crate::sched) placement: Placement,
    pub(in crate::sched) index: usize,
    pub(in crate::sched) station: Arc<Station>,
    pub(in crate::sched) dice: Dice,
    pub(in crate::sched) attempts: Attempts,
    /// For the policy, in which it has its own order of victims.
    pub(in crate::sched) victims: RefCell<Victims>,
    pub(in crate::sched) order_lasts: u64,
    pub(in crate::sched) young: u64,
    pulse: Pulse,
    /// Whether the next turn goes to the oldest strand.
    is_due: Cell<bool>,
    /// The number of turns since one went to the oldest strand.
    turns: Cell<u32>,
    /// For how long its oldest strand had waited at the last beat.
    pub(super) oldest_waits: Cell<u64>,
    pub(super) held_up: u64,
    pub(super) stale: u64,
}

impl<P: Policy> End<P> {
    pub(in crate::sched) fn new(deques: &Arc<Deques<P>>, placement: Placement) -> End<P> {
        deques.topology.get_or_init(|| Arc::clone(&placement.topology));
        let (index, station) = deques.stations.take();
        End {
            deques: Arc::clone(deques),
            index,
            dice: Dice::of(index),
            attempts: Attempts::default(),
            victims: RefCell::default(),
            order_lasts: cycles_in_us(BEAT_US) * ORDER_LASTS_BEATS,
            young: cycles_in_us(YOUNG_US),
            pulse: Pulse::settle(station.presence(), &placement),
            station,
            is_due: Cell::new(false),
            turns: Cell::new(0),
            oldest_waits: Cell::new(0),
            held_up: cycles_in_us(HELD_UP_US),
            stale: cycles_in_us(STALE_US),
            placement,
        }
    }
}

impl<P: Policy> Local for End<P> {
    fn push(&self, strand: Ready, now: u64) -> Wake {
        self.show_pulse(now);
        match self.place(&strand) {
            Place::Inbox(other) => self.deques.send(other, strand, now),
            Place::Here(side) => {
                let mut deque = self.station.lock();
                deque.push(strand, side);
                let wake = wake_for(deque.len());
                self.station.close(deque);
                wake
            }
        }
    }

    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, now: u64, tell: &mut dyn FnMut(Wake)) {
        self.show_pulse(now);
        let (mut deque, mut wake) = (None, None);
        for strand in strands {
            match self.place(&strand) {
                Place::Inbox(other) => {
                    deque.take().into_iter().for_each(|deque| self.station.close(deque));
                    tell(self.deques.send(other, strand, now));
                }
                Place::Here(side) => {
                    let deque = deque.get_or_insert_with(|| self.station.lock());
                    deque.push(strand, side);
                    wake = Some(wake_for(deque.len()));
                }
            }
        }
        deque.into_iter().for_each(|deque| self.station.close(deque));
        wake.into_iter().for_each(tell);
    }

    fn next(&self, now: u64) -> Option<Ready> {
        self.show_pulse(now);
        let next = if self.station.has_strands() { self.pop_from(self.lock_and_unpack()) } else { None };
        self.pulse.set_waiting(self.station.presence(), next.is_none());
        next
    }

    fn exchange(&self, strand: Ready, now: u64) -> Result<Ready, Ready> {
        self.show_pulse(now);
        let Place::Here(side) = self.place(&strand) else { return Err(strand) };
        if !self.station.has_strands() {
            return Ok(self.runs(strand));
        }
        let mut deque = self.lock_and_unpack();
        deque.push(strand, side);
        Ok(self.pop_from(deque).expect("a strand was pushed just now"))
    }

    fn claim(&self) -> Option<Claim> {
        if !self.station.has_strands() {
            return None;
        }
        let deque = self.lock_and_unpack();
        let claim = deque.claim(self.turn());
        self.station.close(deque);
        claim
    }

    fn search(&self, now: u64, effort: Effort) -> Option<Ready> {
        let found = self.deques.policy.steal(self, now, effort);
        let found = found.or_else(|| if effort == Effort::Greedy { self.next(now) } else { None });
        self.pulse.set_waiting(self.station.presence(), found.is_none());
        found
    }

    fn retract(&self, _now: u64) -> Wake {
        self.pulse.set_waiting(self.station.presence(), false);
        Wake::Nobody
    }

    fn beat(&self, now: u64) {
        let since_last = self.pulse.beat(self.station.presence(), &self.placement, now);
        if !self.deques.is_published {
            self.look_at_own(now);
            self.look_at_another(since_last, now);
        }
    }

    fn drain(&self) -> Option<Ready> {
        self.pulse.leave(self.station.presence());
        let next = self.pop_from(self.lock_and_unpack());
        if next.is_none() {
            self.deques.stations.leave(self.index);
        }
        next
    }
}

impl<P: Policy> End<P> {
    #[inline]
    fn show_pulse(&self, now: u64) {
        self.pulse.pass(self.station.presence(), &self.placement, now);
    }

    #[inline]
    fn place(&self, strand: &Ready) -> Place {
        self.deques.policy.place(&self.deques, strand, Some(self.index))
    }

    /// Notes that this processor runs a strand.
    #[inline]
    pub(super) fn runs(&self, strand: Ready) -> Ready {
        if self.deques.policy.notes_stations() {
            strand.set_note(self.index as u32 + 1);
        }
        strand
    }

    fn turn(&self) -> Turn {
        if self.is_due.get() { Turn::Oldest } else { Turn::Head }
    }

    fn lock_and_unpack(&self) -> SpinGuard<'_, Deque> {
        let mut deque = self.station.lock();
        if !self.station.inbox().is_empty() {
            deque.append(self.station.inbox().take_all());
        }
        deque
    }

    #[inline]
    fn pop_from(&self, mut deque: SpinGuard<'_, Deque>) -> Option<Ready> {
        let turn = self.turn();
        let next = deque.pop(turn);
        self.station.close(deque);
        self.turns.set(if turn == Turn::Oldest { 0 } else { self.turns.get().wrapping_add(1) });
        self.is_due.set(false);
        next.map(|strand| self.runs(strand))
    }

    /// Shows for how long the oldest strand has waited, and lets it have the next turn if it is stale.
    fn look_at_own(&self, now: u64) {
        let since = if self.station.len() > 0 { self.station.lock().oldest_since() } else { None };
        let waits = since.map_or(0, |since| now.saturating_sub(since));
        self.station.show_oldest(since);
        self.oldest_waits.set(waits);
        self.is_due.set(waits > self.stale && self.turns.get() >= TURNS_PER_STALE);
    }
}

/// Returns the wake for a strand in a deque of `len` strands.
fn wake_for(len: usize) -> Wake {
    if len > 1 { Wake::Backlog } else { Wake::Lone }
}
