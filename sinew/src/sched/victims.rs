//! The other stations, in the order of their distance from a thief.

use super::Distance;

/// The order of victims is made anew after this number of beats: threads move from CPU to CPU. Unmeasured: about
/// a millisecond, and the kernel leaves a thread on its CPU for longer than that.
pub(super) const ORDER_LASTS_BEATS: u64 = 64;

/// The stations that a thief tries, in order.
#[derive(Default)]
pub(super) struct Victims {
    pub(super) order: Vec<usize>,
    /// The distance of each group of stations, and where the group ends in `order`.
    levels: Vec<(Distance, usize)>,
    /// The thief's CPU, the number of stations and the time for which the order was made.
    cpu: usize,
    used: usize,
    made_at: u64,
}

impl Victims {
    /// Says whether the order is for this number of stations.
    pub(super) fn are_for(&self, used: usize) -> bool {
        self.used == used
    }

    /// Says whether the order is for this number of stations and a thief on this CPU, and was made not more than
    /// `lasts` cycles ago.
    pub(super) fn are_fresh(&self, used: usize, cpu: usize, now: u64, lasts: u64) -> bool {
        self.are_for(used) && self.cpu == cpu && now.saturating_sub(self.made_at) <= lasts
    }

    /// Orders the stations by their numbers, behind that of the thief.
    pub(super) fn order_by_number(&mut self, thief: usize, used: usize) {
        self.order.clear();
        self.order.extend((1..used).map(|offset| (thief + offset) % used));
        self.levels.clear();
        (self.used, self.cpu, self.made_at) = (used, 0, 0);
    }

    /// Orders the stations by `distance`, and those at the same distance by their numbers, behind that of the thief,
    /// who is on `cpu`.
    pub(super) fn order_by_distance(
        &mut self,
        (thief, cpu): (usize, usize),
        used: usize,
        now: u64,
        distance: impl Fn(usize) -> Distance,
    ) {
        self.order_by_number(thief, used);
        self.order.sort_by_cached_key(|&station| distance(station));
        for (place, &station) in self.order.iter().enumerate() {
            match self.levels.last_mut() {
                Some((level, end)) if *level == distance(station) => *end = place + 1,
                _ => self.levels.push((distance(station), place + 1)),
            }
        }
        (self.cpu, self.made_at) = (cpu, now);
    }

    /// Returns the groups of stations at the same distance, nearest first.
    pub(super) fn levels(&self) -> impl Iterator<Item = (Distance, &[usize])> {
        let begins = std::iter::once(0).chain(self.levels.iter().map(|&(_, end)| end));
        begins.zip(&self.levels).map(|(begin, &(distance, end))| (distance, &self.order[begin..end]))
    }
}
