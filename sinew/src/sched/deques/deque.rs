//! The strands of one station, in the order in which their processor runs them.
//!
//! A level of priority has two parts. The *stack* is last in, first out. Behind it comes the *line*, first in,
//! first out, for strands that enter at the tail. So the oldest strand is at the bottom of the stack or at the
//! front of the line, and each of the two is reached in constant time.

use crate::sched::{Claim, Priority, Ready};
use crate::strand::{Fifo, PassedOver};
use std::collections::VecDeque;

/// The end of the deque where a strand enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sched) enum Side {
    Head,
    Tail,
}

/// Which strand of a level is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The one at the head.
    Head,
    /// The one that has waited longest.
    Oldest,
}

struct Level {
    /// The head is at the front.
    stack: VecDeque<Ready>,
    line: Fifo,
}

impl Level {
    const fn new() -> Level {
        Level { stack: VecDeque::new(), line: Fifo::new() }
    }

    fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.line.is_empty()
    }

    /// Returns when the strand became ready that has waited longest.
    fn oldest_since(&self) -> Option<u64> {
        let bottom = self.stack.back().map(Ready::ready_at);
        bottom.into_iter().chain(self.line.ready_at()).min()
    }

    fn pop(&mut self, turn: Turn) -> Option<Ready> {
        if turn == Turn::Head {
            return self.stack.pop_front().or_else(|| self.line.pop());
        }
        match (self.stack.back().map(Ready::ready_at), self.line.ready_at()) {
            (Some(bottom), Some(front)) if front < bottom => self.line.pop(),
            (Some(_), _) => self.stack.pop_back(),
            (None, _) => self.line.pop(),
        }
    }
}

pub(in crate::sched) struct Deque {
    levels: [Level; Priority::LEVELS],
    /// A bit for each level that is not empty.
    occupied: u32,
    len: usize,
    /// Counts for the oldest strand of the least urgent level that is not empty, as in `Levels`.
    passed_over: PassedOver,
}

impl Deque {
    pub(super) const fn new() -> Deque {
        let levels = [const { Level::new() }; Priority::LEVELS];
        Deque { levels, occupied: 0, len: 0, passed_over: PassedOver::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn enter(&mut self, strand: &Ready) -> &mut Level {
        let level = (strand.priority() as usize).min(Priority::LEVELS - 1);
        self.occupied |= 1 << level;
        self.len += 1;
        &mut self.levels[level]
    }

    #[inline]
    pub(super) fn push(&mut self, strand: Ready, side: Side) {
        let level = self.enter(&strand);
        match side {
            Side::Head => level.stack.push_front(strand),
            Side::Tail => level.line.push(strand),
        }
    }

    /// Puts strands at the tail, in this order.
    pub(super) fn append(&mut self, mut strands: Fifo) {
        while let Some(strand) = strands.pop() {
            self.push(strand, Side::Tail);
        }
    }

    /// Returns the most urgent level that has strands.
    #[inline]
    fn first_level(&self) -> Option<usize> {
        (self.occupied != 0).then(|| self.occupied.trailing_zeros() as usize)
    }

    /// Takes the strand whose turn it is: of the most urgent level, or the oldest of a level that has been passed
    /// over too often.
    #[inline]
    pub(super) fn pop(&mut self, turn: Turn) -> Option<Ready> {
        let first = self.first_level()?;
        if self.occupied & (self.occupied - 1) != 0 {
            let (level, turn) = self.level_in_turn(first, turn);
            return self.pop_from(level, turn);
        }
        self.pop_from(first, turn)
    }

    #[inline]
    fn pop_from(&mut self, level: usize, turn: Turn) -> Option<Ready> {
        let strand = self.levels[level].pop(turn)?;
        self.len -= 1;
        if self.levels[level].is_empty() {
            self.occupied &= !(1 << level);
        }
        Some(strand)
    }

    /// Returns the level whose turn it is where several have strands, and which strand of it is taken. `first` is the
    /// most urgent one.
    #[cold]
    fn level_in_turn(&mut self, first: usize, turn: Turn) -> (usize, Turn) {
        let last = self.occupied.ilog2() as usize;
        let since = |level: &usize| self.levels[*level].oldest_since().unwrap_or(u64::MAX);
        if self.passed_over.may_be(since(&last)) {
            return (first, turn);
        }
        let waited_longest = (first + 1..=last).min_by_key(since);
        (waited_longest.unwrap_or(first), Turn::Oldest)
    }

    /// Takes the oldest strand of the most urgent level, for another processor.
    pub(super) fn steal(&mut self) -> Option<Ready> {
        self.pop_from(self.first_level()?, Turn::Oldest)
    }

    /// Takes half of the strands, `most` at most, for another processor: the oldest of the most urgent level first.
    /// Returns their number as well.
    pub(super) fn steal_half(&mut self, most: usize) -> Option<(usize, Fifo)> {
        let share = self.len.div_ceil(2).min(most);
        let mut stolen = Fifo::new();
        std::iter::from_fn(|| self.steal()).take(share).for_each(|strand| stolen.push(strand));
        (share > 0).then_some((share, stolen))
    }

    /// Returns the claim of the strand that `pop` returns, unless it is the turn of another level.
    pub(super) fn claim(&self, turn: Turn) -> Option<Claim> {
        const PRIORITIES: [Priority; Priority::LEVELS] = [Priority::High, Priority::Normal, Priority::Low];
        let first = self.first_level()?;
        let level = &self.levels[first];
        let head_since = || level.stack.front().map(Ready::ready_at).or_else(|| level.line.ready_at());
        let ready_at = if turn == Turn::Oldest { level.oldest_since() } else { head_since() }?;
        Some(Claim { priority: PRIORITIES[first], ready_at })
    }

    /// Returns when the strand became ready that has waited longest.
    pub(super) fn oldest_since(&self) -> Option<u64> {
        self.levels.iter().filter_map(Level::oldest_since).min()
    }
}
