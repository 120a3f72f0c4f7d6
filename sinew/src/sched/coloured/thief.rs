//! What a processor takes from the others: steals when it has nothing to run, and rescues at its beats.

use super::end::End;
use super::queue::{Loot, Queue};
use super::station::Station;
use super::worth::Worth;
use super::{Heuristics, Stealing};
use crate::sched::meter::{Cause, stopwatch};
use crate::sched::victims::Victims;
use crate::sched::{Distance, Effort};
use std::cell::Ref;

/// The largest number of strands that a processor takes at once: each is a cache miss under the lock of that
/// queue. As in [`Fair`](crate::sched::Fair).
const LARGEST_SHARE: u32 = 64;

/// A busy processor takes what another one does not get to, if that has not used its end for this many times
/// as long as the last two beats of the looker are apart. As in [`Inverted`](crate::sched::Inverted).
const HELD_UP_BEATS: u64 = 3;

impl End {
    /// Takes strands from the first victim that has some for a thief. Returns whether there was one.
    pub(super) fn steal(&self, now: u64, effort: Effort) -> bool {
        let victims = self.victims(now);
        let stations = &self.shared.stations;
        let mut victims = victims.order.iter().filter_map(|&index| Some((index, stations.get(index)?)));
        victims.any(|(index, victim)| self.rob(index, victim, now, effort))
    }

    /// Takes strands from the next station along the table, if its processor has left or is held up much longer
    /// than this one.
    pub(super) fn rescue(&self, since_last: u64, now: u64) {
        let used = self.shared.stations.used();
        if used < 2 {
            return;
        }
        let ahead = self.ahead.get() % (used - 1) + 1;
        self.ahead.set(ahead);
        let index = (self.index + ahead) % used;
        let Some(other) = self.shared.stations.get(index) else { return };
        let limit = since_last.saturating_mul(HELD_UP_BEATS).max(self.held_up);
        if (other.len() > 0 || !other.inbox().is_empty())
            && (!other.presence().is_taken() || other.presence().is_held_up(limit, now))
        {
            let all = |queue: &mut Queue, _: &Worth| Some((queue.steal_turns(LARGEST_SHARE)?, Cause::Rescue));
            self.take(index, other, Effort::Polite, true, all);
        }
    }

    /// Takes strands from a station, if it has some for a thief. A polite thief takes what the heuristics choose, and
    /// what the processor of the station does not get to. A greedy one takes a strand in any case.
    fn rob(&self, index: usize, victim: &Station, now: u64, effort: Effort) -> bool {
        let is_greedy = effort == Effort::Greedy;
        let presence = victim.presence();
        let is_left = !presence.is_taken() || presence.is_waiting() || presence.is_held_up(self.held_up, now);
        let inbox = victim.inbox();
        let unpacks = if is_greedy { !inbox.is_empty() } else { inbox.are_older_than(self.young, now) };
        let is_young = !is_greedy && victim.has_a_young_one_only(now, self.young);
        let is_tempting = (victim.is_tempting() && !is_young) || (victim.len() > 0 && (is_greedy || is_left));
        if !unpacks && !is_tempting {
            return false;
        }
        self.take(index, victim, effort, unpacks, |queue, worth| {
            let chosen = queue.steal_colour(worth).or_else(|| queue.steal_plain(LARGEST_SHARE));
            if let Some(loot) = chosen {
                return Some((loot, Cause::Steal));
            }
            let most = if is_left { LARGEST_SHARE } else { u32::from(is_greedy) };
            queue.steal_turns(most).map(|loot| (loot, Cause::Rescue))
        })
    }

    /// Moves what `choose` takes out of another station's queue to this processor's own. Returns whether there was
    /// anything. Passes over a queue whose lock is held, unless it is greedy.
    fn take(
        &self,
        index: usize,
        victim: &Station,
        effort: Effort,
        unpacks: bool,
        choose: impl FnOnce(&mut Queue, &Worth) -> Option<(Loot, Cause)>,
    ) -> bool {
        let began = stopwatch();
        self.attempts.tries();
        let theirs = if effort == Effort::Greedy { Some(victim.lock()) } else { victim.try_lock() };
        let Some(mut theirs) = theirs else { return false };
        let worth = self.shared.worth();
        if unpacks {
            victim.unpack(&mut theirs, index, &worth);
        }
        let chosen = choose(&mut theirs, &worth);
        victim.close(theirs, &worth);
        let Some((mut loot, cause)) = chosen else { return false };
        let haul = loot.haul();
        let mut mine = self.station.lock();
        while let Some(strand) = loot.strands.pop() {
            mine.push(strand, self.index, &worth);
        }
        self.station.close(mine, &worth);
        let took = stopwatch().saturating_sub(began);
        self.placement.count(cause, haul.strands as usize);
        self.shared.tally.count(&haul, &self.attempts, took, self.distance_to(victim), cause);
        true
    }

    fn distance_to(&self, other: &Station) -> Distance {
        self.placement.topology().distance(self.station.presence().cpu(), other.presence().cpu())
    }

    /// Returns the stations to try, in order.
    fn victims(&self, now: u64) -> Ref<'_, Victims> {
        let used = self.shared.stations.used();
        let locality = matches!(self.shared.stealing, Stealing::Improved(Heuristics { locality: true, .. }));
        let (cpu, mut victims) = (self.station.presence().cpu(), self.victims.borrow_mut());
        if self.shared.worth().picks_by_letters() {
            let letters = |index: &usize| self.shared.stations.get(*index).map_or(0, |station| station.letters());
            let others = (0..used).filter(|&index| index != self.index);
            // The first of those that have the most.
            let first = others.rev().max_by_key(letters).unwrap_or(0);
            victims.order.clear();
            victims.order.extend((0..used).map(|offset| (first + offset) % used).filter(|&index| index != self.index));
        } else if locality && !self.placement.topology().is_even() {
            if !victims.are_fresh(used, cpu, now, self.order_lasts) {
                let topology = self.placement.topology();
                let cpu_of = |index| self.shared.stations.get(index).map_or(0, |other| other.presence().cpu());
                victims.order_by_distance((self.index, cpu), used, now, |index| topology.distance(cpu, cpu_of(index)));
            }
        } else if !victims.are_for(used) {
            victims.order_by_number(self.index, used);
        }
        drop(victims);
        self.victims.borrow()
    }
}
