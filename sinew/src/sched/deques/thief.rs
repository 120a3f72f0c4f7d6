//! What a processor takes from the others: steals when it has nothing to run, and rescues at its beats.

use super::deque::Deque;
use super::{End, Policy, Station};
use crate::sched::meter::{Cause, Haul, stopwatch};
use crate::sched::{Distance, Effort, Ready};
use crate::strand::Fifo;

/// The largest number of strands that a processor takes at once: each is a cache miss under the lock of that deque. As
/// in [`Fair`](crate::sched::Fair).
const LARGEST_SHARE: usize = 64;

/// A processor is held up when it was not seen for this many times as long as the last two beats of the looker are
/// apart. As in [`Inverted`](crate::sched::Inverted).
const HELD_UP_BEATS: u64 = 3;

/// The strands of another processor are neglected if the oldest of them is stale, and has waited for this many times
/// as long as the oldest one here. As in [`Fair`](crate::sched::Fair).
const RESCUE_BIAS: u64 = 8;

impl<P: Policy> End<P> {
    pub(in crate::sched) fn distance_to(&self, other: &Station) -> Distance {
        self.placement.topology().distance(self.station.presence().cpu(), other.presence().cpu())
    }

    /// Takes the oldest strands from a station, if there are some for a thief: half of them, as many as the policy
    /// allows. Returns the first one, and puts the others into the own deque. A polite thief passes over a deque whose lock
    /// is held.
    pub(in crate::sched) fn rob(&self, victim: &Station, now: u64, effort: Effort) -> Option<Ready> {
        let is_tempting = match effort {
            Effort::Greedy => victim.has_strands(),
            Effort::Polite => victim.is_tempting(self.young, now),
        };
        if !is_tempting {
            return None;
        }
        let takes_many = !self.deques.is_published && self.deques.policy.takes_many(self, victim);
        let most = if takes_many { LARGEST_SHARE } else { 1 };
        let mut stolen = self.take(victim, effort, Cause::Steal, |deque| deque.steal_half(most))?;
        let first = stolen.pop();
        if !stolen.is_empty() {
            self.append(stolen);
        }
        first.map(|strand| self.runs(strand))
    }

    /// Picks a station at random. Takes half of its strands if its processor has left, is held up much longer than this
    /// one, or neglects its strands much longer than this one does.
    pub(super) fn look_at_another(&self, since_last: u64, now: u64) {
        let stations = &self.deques.stations;
        let picked = self.dice.other(self.index, stations.used());
        let Some(other) = picked.and_then(|station| stations.get(station)) else { return };
        let limit = since_last.saturating_mul(HELD_UP_BEATS).max(self.held_up);
        let is_left = other.is_left_behind() || (other.has_strands() && other.presence().is_held_up(limit, now));
        let stale = self.oldest_waits.get().saturating_mul(RESCUE_BIAS).max(self.stale);
        let is_neglected = other.oldest_waits(now).is_some_and(|waits| waits > stale);
        if !(is_left || is_neglected) || !self.deques.policy.looks_at(self, other) {
            return;
        }
        let taken = self.take(other, Effort::Polite, Cause::Rescue, |deque| {
            // What is shown may be out of date.
            let is_stale = deque.oldest_since().is_some_and(|since| now.saturating_sub(since) > stale);
            if is_left || is_stale { deque.steal_half(LARGEST_SHARE) } else { None }
        });
        if let Some(taken) = taken {
            self.append(taken);
        }
    }

    /// Puts strands that were taken elsewhere behind the own line: what is in the line is never overtaken.
    fn append(&self, taken: Fifo) {
        let mut mine = self.station.lock();
        mine.append(taken);
        self.station.close(mine);
    }

    /// Returns what `choose` takes out of another station's deque, to which it adds the arrivals there. `choose` says how
    /// many strands these are. Passes over a deque whose lock is held, unless it is greedy.
    fn take<T>(
        &self,
        victim: &Station,
        effort: Effort,
        cause: Cause,
        choose: impl FnOnce(&mut Deque) -> Option<(usize, T)>,
    ) -> Option<T> {
        let began = stopwatch();
        self.attempts.tries();
        let mut theirs = if effort == Effort::Greedy { victim.lock() } else { victim.try_lock()? };
        theirs.append(victim.inbox().take_all());
        let taken = choose(&mut theirs);
        victim.close(theirs);
        let (strands, taken) = taken?;
        let haul = Haul { strands: strands as u64, letters: 0, nanoseconds: 0 };
        let took = stopwatch().saturating_sub(began);
        self.placement.count(cause, strands);
        self.deques.tally.count(&haul, &self.attempts, took, self.distance_to(victim), cause);
        Some(taken)
    }
}
