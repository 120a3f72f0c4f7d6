//! Which victims a thief tries: the nearest ones first.

use super::Nearest;
use crate::sched::deques::{End, Station};
use crate::sched::victims::Victims;
use crate::sched::{Distance, Effort, Ready};
use std::sync::Arc;

/// Takes a strand from the nearest station that has one for a thief.
pub(super) fn steal(thief: &End<Nearest>, now: u64, effort: Effort) -> Option<Ready> {
    order_victims(thief, now);
    let victims = thief.victims.borrow();
    let rob = |&victim: &usize| thief.rob(station(thief, victim)?, now, effort);
    if effort == Effort::Greedy {
        return victims.order.iter().find_map(rob);
    }
    if is_crowded(thief, &victims, now) {
        thief.attempts.backs_off();
        return None;
    }
    victims.levels().find_map(|(distance, level)| match is_local(distance) {
        true => try_tempting(thief, level, now),
        false => try_each(thief, level, now),
    })
}

fn station(thief: &End<Nearest>, index: usize) -> Option<&Arc<Station>> {
    thief.deques.stations.get(index)
}

fn is_local(distance: Distance) -> bool {
    distance <= Distance::Node
}

/// Says whether the thief is to leave its node to others for now: a single station has something for a thief, and more
/// than half of the node's processors poll already. Otherwise the thief polls as well, if there is something.
fn is_crowded(thief: &End<Nearest>, victims: &Victims, now: u64) -> bool {
    let levels = victims.levels().filter(|(distance, _)| is_local(*distance));
    let (mut processors, mut tempting, mut polling) = (1, 0, 0);
    for other in levels.flat_map(|(_, level)| level).filter_map(|&index| station(thief, index)) {
        processors += u32::from(other.presence().is_taken());
        tempting += u32::from(other.is_tempting(thief.young, now));
        polling += u32::from(other.polls(thief.young, now));
    }
    let is_crowded = tempting == 1 && polling * 2 > processors;
    if tempting > 0 && !is_crowded {
        thief.station.poll(now);
    }
    is_crowded
}

/// Tries the stations of a level that have something for a thief, in an order that begins at random.
fn try_tempting(thief: &End<Nearest>, level: &[usize], now: u64) -> Option<Ready> {
    let others = || level.iter().filter_map(|&index| station(thief, index));
    let tempting = || others().filter(|other| other.is_tempting(thief.young, now));
    let first = thief.dice.below(tempting().count().max(1));
    tempting().skip(first).chain(tempting().take(first)).find_map(|victim| thief.rob(victim, now, Effort::Polite))
}

/// Tries each station of a level, in an order that begins at random.
fn try_each(thief: &End<Nearest>, level: &[usize], now: u64) -> Option<Ready> {
    let (before, from) = level.split_at(thief.dice.below(level.len()));
    let mut others = from.iter().chain(before).filter_map(|&index| station(thief, index));
    others.find_map(|victim| thief.rob(victim, now, Effort::Polite))
}

fn order_victims(thief: &End<Nearest>, now: u64) {
    let (used, cpu) = (thief.deques.stations.used(), thief.station.presence().cpu());
    let mut victims = thief.victims.borrow_mut();
    if !victims.are_fresh(used, cpu, now, thief.order_lasts) {
        let distance = |index| station(thief, index).map_or(Distance::Core, |other| thief.distance_to(other));
        victims.order_by_distance((thief.index, cpu), used, now, distance);
    }
}
