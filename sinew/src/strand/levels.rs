//! A queue of strands with levels of priority, in which no level starves. The essay of `sched` has the
//! reasons.

use super::{Fifo, Priority, Ready};

/// A strand that more urgent ones have passed over this often gets the next turn. So a level gets at
/// least one turn in 64. A switch takes about 15 ns: where strands are short, that is a turn every
/// microsecond, and the others lose 1.5 per cent. Unmeasured beyond that.
const MOST_PASSED_OVER: u32 = 63;

/// Counts how often more urgent strands have passed over a strand. The time when it became ready
/// identifies it.
#[derive(Default)]
pub(crate) struct PassedOver {
    ready_at: u64,
    times: u32,
}

impl PassedOver {
    pub(crate) const fn new() -> Self {
        PassedOver { ready_at: 0, times: 0 }
    }

    /// Says whether the strand that became ready at `ready_at` may be passed over, and counts that.
    /// If it may not, it is to run now.
    pub(crate) fn may_be(&mut self, ready_at: u64) -> bool {
        if self.ready_at != ready_at {
            *self = PassedOver { ready_at, times: 0 };
        }
        let may_be = self.times < MOST_PASSED_OVER;
        self.times = if may_be { self.times + 1 } else { 0 };
        may_be
    }
}

/// One queue for each level of priority. The most urgent level goes first, but no level waits for
/// ever: see [`PassedOver`].
pub(crate) struct Levels {
    queues: [Fifo; Priority::LEVELS],
    /// A bit for each queue that is not empty.
    occupied: u32,
    len: usize,
    /// Counts for the head of the least urgent level that is not empty.
    passed_over: PassedOver,
}

/// What a strand has to show when queues are compared. The smaller claim goes first: the more urgent
/// one, and of two equally urgent ones the older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// How urgent the strand is.
    pub priority: Priority,
    /// When it became ready, in cycles.
    pub ready_at: u64,
}

impl Claim {
    /// Returns the claim of this strand.
    pub fn of(strand: &Ready) -> Claim {
        Claim { priority: strand.priority(), ready_at: strand.ready_at() }
    }
}

impl Levels {
    pub(crate) const fn new() -> Self {
        let queues = [const { Fifo::new() }; Priority::LEVELS];
        Levels { queues, occupied: 0, len: 0, passed_over: PassedOver::new() }
    }

    /// Where the length is.
    pub(crate) const LENGTH: usize = std::mem::offset_of!(Levels, len);

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Enters a strand. A background strand goes to the lowest level.
    #[inline]
    pub(crate) fn push(&mut self, ready: Ready) {
        let level = (ready.priority() as usize).min(Priority::LEVELS - 1);
        self.queues[level].push(ready);
        self.occupied |= 1 << level;
        self.len += 1;
    }

    /// Returns the most urgent level that has a strand.
    #[inline]
    fn first_level(&self) -> Option<usize> {
        let level = self.occupied.trailing_zeros() as usize;
        (level < Priority::LEVELS).then_some(level)
    }

    /// Says whether several levels have strands.
    #[inline(always)]
    pub(crate) fn is_mixed(&self) -> bool {
        self.occupied & self.occupied.wrapping_sub(1) != 0
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Ready> {
        if self.is_mixed() { self.pop_in_turn() } else { self.pop_first() }
    }

    /// Pops a strand where one level has strands at most.
    #[inline(always)]
    pub(crate) fn pop_first(&mut self) -> Option<Ready> {
        let level = self.first_level()?;
        self.pop_from(level)
    }

    #[inline(always)]
    fn pop_from(&mut self, level: usize) -> Option<Ready> {
        let ready = self.queues[level].pop();
        if self.queues[level].is_empty() {
            self.occupied &= !(1 << level);
        }
        self.len -= 1;
        ready
    }

    /// Pops a strand where several levels have strands.
    #[cold]
    #[inline(never)]
    fn pop_in_turn(&mut self) -> Option<Ready> {
        let since = |level: usize| self.queues[level].ready_at();
        let (first, last) = (self.first_level()?, self.occupied.ilog2() as usize);
        let level = match self.passed_over.may_be(since(last)?) {
            true => first,
            false => (first + 1..=last).filter(|&level| since(level).is_some()).min_by_key(|&level| since(level))?,
        };
        self.pop_from(level)
    }

    /// Does `push` and `pop` in one step.
    #[inline]
    pub(crate) fn exchange(&mut self, ready: Ready) -> Ready {
        self.rotate(ready).unwrap_or_else(|ready| self.exchange_in_turn(ready))
    }

    /// Does an [`exchange`](Levels::exchange), or gives `ready` back if another level has strands.
    #[inline(always)]
    pub(crate) fn rotate(&mut self, ready: Ready) -> Result<Ready, Ready> {
        let level = (ready.priority() as usize).min(Priority::LEVELS - 1);
        if self.occupied & !(1 << level) == 0 { Ok(self.queues[level].rotate(ready)) } else { Err(ready) }
    }

    #[cold]
    #[inline(never)]
    fn exchange_in_turn(&mut self, ready: Ready) -> Ready {
        self.push(ready);
        self.pop().expect("a strand was pushed just now")
    }

    /// Returns the claim of the most urgent strand. `pop` returns that strand, unless it is the turn
    /// of another level.
    #[inline]
    pub(crate) fn claim(&self) -> Option<Claim> {
        const PRIORITIES: [Priority; Priority::LEVELS] = [Priority::High, Priority::Normal, Priority::Low];
        let level = self.first_level()?;
        let ready_at = self.queues[level].ready_at()?;
        Some(Claim { priority: PRIORITIES[level], ready_at })
    }

    /// Asks the CPU for the memory that running the strand at the head will need.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        if let Some(head) = self.first_level().and_then(|level| self.queues[level].head()) {
            head.prefetch();
        }
    }

    fn note_occupied(&mut self) {
        let bits = self.queues.iter().enumerate().map(|(level, queue)| u32::from(!queue.is_empty()) << level);
        self.occupied = bits.sum();
    }

    /// Takes everything, in constant time.
    pub(crate) fn take_all(&mut self) -> Levels {
        std::mem::replace(self, Levels::new())
    }

    /// Takes up to `count` strands from the head, most urgent first.
    pub(crate) fn take_some(&mut self, count: usize) -> Levels {
        let mut taken = Levels::new();
        for (to, from) in taken.queues.iter_mut().zip(&mut self.queues) {
            let (head, number) = from.split_head(count - taken.len);
            *to = head;
            taken.len += number;
        }
        self.len -= taken.len;
        self.note_occupied();
        taken.note_occupied();
        taken
    }

    /// Puts older strands in front of what is here.
    pub(crate) fn prepend(&mut self, older: Levels) {
        let newer = std::mem::replace(self, older);
        self.append(newer);
    }

    /// Puts strands behind what is here.
    pub(crate) fn append(&mut self, mut newer: Levels) {
        if newer.passed_over.times > self.passed_over.times {
            self.passed_over = std::mem::take(&mut newer.passed_over);
        }
        self.len += newer.len;
        newer.len = 0;
        for (to, from) in self.queues.iter_mut().zip(&mut newer.queues) {
            to.append(std::mem::replace(from, Fifo::new()));
        }
        self.occupied |= newer.occupied;
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    fn strand(priority: Priority, ready_at: u64) -> Ready {
        let ready = Ready::simulated(priority);
        ready.stamp(ready_at);
        ready
    }

    fn fill(levels: &mut Levels, priority: Priority, times: std::ops::Range<u64>) {
        times.for_each(|time| levels.push(strand(priority, time)));
    }

    /// Pops everything. Returns the times when the strands became ready.
    fn times(levels: &mut Levels) -> Vec<u64> {
        std::iter::from_fn(|| levels.pop()).map(|ready| (ready.ready_at(), ready.retire()).0).collect()
    }

    #[test]
    fn the_most_urgent_level_goes_first_and_each_level_is_first_in_first_out() {
        let mut levels = Levels::new();
        fill(&mut levels, Priority::Low, 0..3);
        fill(&mut levels, Priority::High, 3..6);
        fill(&mut levels, Priority::Normal, 6..9);
        assert_eq!(levels.claim(), Some(Claim { priority: Priority::High, ready_at: 3 }));
        assert_eq!(times(&mut levels), [3, 4, 5, 6, 7, 8, 0, 1, 2]);
    }

    #[test]
    fn the_64th_turn_goes_to_the_less_urgent_level_that_has_waited_longest() {
        let mut levels = Levels::new();
        fill(&mut levels, Priority::High, 1000..1200);
        fill(&mut levels, Priority::Low, 2..4);
        fill(&mut levels, Priority::Normal, 1..2);
        let order = times(&mut levels);
        let turn_of = |time| order.iter().position(|of| *of == time).unwrap();
        assert_eq!([turn_of(1), turn_of(2), turn_of(3)], [63, 127, 191]);
    }

    #[test]
    fn an_exchange_is_a_push_and_a_pop() {
        let mut levels = Levels::new();
        for (priority, time) in [(Priority::Normal, 7), (Priority::Low, 8)] {
            let same = levels.exchange(strand(priority, time));
            assert_eq!((same.ready_at(), levels.len()), (time, 0));
            same.retire();
        }
        fill(&mut levels, Priority::Normal, 0..3);
        let exchanges =
            [(Priority::Normal, 3, 0), (Priority::Normal, 4, 1), (Priority::Low, 5, 2), (Priority::High, 6, 6)];
        for (priority, time, first) in exchanges {
            let next = levels.exchange(strand(priority, time));
            assert_eq!((next.ready_at(), levels.len()), (first, 3));
            next.retire();
        }
        assert_eq!(times(&mut levels), [3, 4, 5]);
    }

    #[test]
    fn strands_that_are_taken_and_put_in_front_keep_their_order() {
        let mut levels = Levels::new();
        fill(&mut levels, Priority::Normal, 0..4);
        fill(&mut levels, Priority::High, 4..6);
        let taken = levels.take_some(3);
        assert_eq!((taken.len(), levels.len()), (3, 3));
        let mut other = Levels::new();
        fill(&mut other, Priority::High, 6..8);
        other.prepend(taken);
        assert_eq!(times(&mut other), [4, 5, 6, 7, 0]);
        other.append(levels.take_all());
        assert!(levels.is_empty());
        assert_eq!(times(&mut other), [1, 2, 3]);
    }
}
