//! The stations of a scheduler: one part for each processor, in a table that is read without a
//! lock.
//!
//! An entry is made when its station is first taken, and then stays. A processor that leaves marks
//! its station vacant, and a processor that comes takes a vacant one first. So a strand that lands
//! in a station at the moment when its processor leaves can still be found there.

use super::MAX_PROCESSORS;
use crate::base::atomic::{AtomicUsize, Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

pub(super) struct Stations<T> {
    entries: Box<[OnceLock<Arc<T>>]>,
    /// Greater than the index of each entry that is set. Only a bound: each entry publishes itself, and
    /// a reader that comes too early finds it empty.
    used: AtomicUsize,
    /// The station whose turn it is to get a strand, modulo the number of stations.
    turn: AtomicUsize,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    /// The lowest station that was never taken.
    fresh: usize,
    vacant: Vec<usize>,
}

impl<T: Default> Default for Stations<T> {
    fn default() -> Self {
        Stations {
            entries: std::iter::repeat_with(OnceLock::new).take(MAX_PROCESSORS).collect(),
            used: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            plan: Mutex::default(),
        }
    }
}

impl<T: Default> Stations<T> {
    /// Takes a station. Returns its index and its entry.
    ///
    /// # Panics
    /// Panics if [`MAX_PROCESSORS`] stations are taken already.
    pub(super) fn take(&self) -> (usize, Arc<T>) {
        let mut plan = self.plan.lock().unwrap();
        let station = plan.vacant.pop().unwrap_or_else(|| {
            plan.fresh += 1;
            plan.fresh - 1
        });
        drop(plan);
        (station, Arc::clone(self.get_or_new(station)))
    }

    /// Leaves a station to the next processor that takes one.
    pub(super) fn leave(&self, station: usize) {
        self.plan.lock().unwrap().vacant.push(station);
    }

    pub(super) fn get(&self, station: usize) -> Option<&Arc<T>> {
        self.entries[station].get()
    }

    pub(super) fn get_or_new(&self, station: usize) -> &Arc<T> {
        let entry = self.entries[station].get_or_init(Arc::default);
        self.used.fetch_max(station + 1, Relaxed);
        entry
    }

    /// Returns the number of stations that have ever been in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Returns the next station in turn that `is_taken`. If every station is vacant, returns the first one: a strand
    /// waits there for the next processor that attaches or looks.
    pub(super) fn in_turn(&self, is_taken: impl Fn(&T) -> bool) -> &Arc<T> {
        let used = self.used().max(1);
        let first = self.turn.fetch_add(1, Relaxed);
        let taken = (0..used).find_map(|offset| self.get((first + offset) % used).filter(|entry| is_taken(entry)));
        taken.unwrap_or_else(|| self.get_or_new(0))
    }

    /// Returns the entries of the other stations, beginning behind `station`.
    pub(super) fn others(&self, station: usize) -> impl Iterator<Item = &Arc<T>> {
        let used = self.used();
        (1..used).filter_map(move |offset| self.get((station + offset) % used))
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_station_that_was_left_is_taken_again_with_what_is_in_it() {
        let stations = Stations::<Mutex<u32>>::default();
        let (first, entry) = stations.take();
        let (second, _) = stations.take();
        assert_ne!(first, second);
        *entry.lock().unwrap() = 7;
        stations.leave(first);
        assert_eq!(*stations.others(second).next().unwrap().lock().unwrap(), 7);
        let (again, entry) = stations.take();
        assert_eq!((again, *entry.lock().unwrap()), (first, 7));
        assert_eq!(stations.used(), 2);
    }
}
