//! A table of per-processor parts that grows and shrinks while it is read.
//!
//! An entry is made when its seat is first taken and then stays: a processor
//! that leaves only marks it vacant, and one that comes takes a vacant one
//! first. So readers walk the table without a lock, and whatever lands in a
//! seat at the moment when it is left can still be found there.

use super::MAX_PROCESSORS;
use crate::atomic::{Acquire, AtomicUsize, Release};
use std::sync::{Arc, Mutex, OnceLock};

pub(super) struct Seats<T> {
    entries: Box<[OnceLock<Arc<T>>]>,
    /// All entries that are set have smaller indices.
    used: AtomicUsize,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    /// The lowest seat that nobody ever took.
    fresh: usize,
    vacant: Vec<usize>,
}

impl<T: Default> Default for Seats<T> {
    fn default() -> Self {
        Seats {
            entries: std::iter::repeat_with(OnceLock::new).take(MAX_PROCESSORS).collect(),
            used: AtomicUsize::new(0),
            plan: Mutex::default(),
        }
    }
}

impl<T: Default> Seats<T> {
    /// Takes a seat: its index and what is there.
    ///
    /// # Panics
    /// If more than [`MAX_PROCESSORS`] are taken.
    pub(super) fn take(&self) -> (usize, Arc<T>) {
        let mut plan = self.plan.lock().unwrap();
        let seat = plan.vacant.pop().unwrap_or_else(|| {
            plan.fresh += 1;
            plan.fresh - 1
        });
        drop(plan);
        (seat, Arc::clone(self.get_or_new(seat)))
    }

    /// Leaves a seat to the next who takes one.
    pub(super) fn leave(&self, seat: usize) {
        self.plan.lock().unwrap().vacant.push(seat);
    }

    pub(super) fn get(&self, seat: usize) -> Option<&Arc<T>> {
        self.entries[seat].get()
    }

    pub(super) fn get_or_new(&self, seat: usize) -> &Arc<T> {
        let entry = self.entries[seat].get_or_init(Arc::default);
        // Release pairs with the Acquire in `used`.
        self.used.fetch_max(seat + 1, Release);
        entry
    }

    /// How many seats have been in use at one time or another.
    pub(super) fn used(&self) -> usize {
        self.used.load(Acquire)
    }

    /// What is in the other seats, beginning behind `seat`.
    pub(super) fn others(&self, seat: usize) -> impl Iterator<Item = &Arc<T>> {
        let used = self.used();
        (1..used).filter_map(move |offset| self.get((seat + offset) % used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_that_was_left_is_taken_again_with_what_is_in_it() {
        let seats = Seats::<Mutex<u32>>::default();
        let (first, entry) = seats.take();
        let (second, _) = seats.take();
        assert_ne!(first, second);
        *entry.lock().unwrap() = 7;
        seats.leave(first);
        assert_eq!(*seats.others(second).next().unwrap().lock().unwrap(), 7);
        let (again, entry) = seats.take();
        assert_eq!((again, *entry.lock().unwrap()), (first, 7));
        assert_eq!(seats.used(), 2);
    }
}
