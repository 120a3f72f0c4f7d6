//! What a processor keeps of the strand that it runs.

use super::current::{CurrentTask, RunningTask};
use crate::strand::{Owed, Strand, fresh_ids};
use std::cell::Cell;
use std::num::NonZeroU64;

/// The number of fibre ids that a processor draws at once.
const ID_BLOCK: u64 = 1024;

/// The number of operations that a task may do in one poll without waiting; the next one gives way.
/// 128 of the cheapest operations take some microseconds. Unmeasured beyond that.
const TASK_OPERATIONS: u32 = 128;

/// Owner: the processor.
pub(super) struct Running {
    task: CurrentTask,
    /// The number of operations that the task may still do in this poll.
    task_budget: Cell<u32>,
    /// The units that fibres may still spend before one of them yields.
    budget: Cell<u32>,
    /// The party that joined the strand which ends now.
    joiner: Cell<Option<Owed>>,
    /// The next id for a fibre, and the end of the block of ids.
    ids: Cell<(u64, u64)>,
}

impl Running {
    pub(super) const fn new() -> Running {
        Running {
            task: CurrentTask::none(),
            task_budget: Cell::new(0),
            budget: Cell::new(0),
            joiner: Cell::new(None),
            ids: Cell::new((0, 0)),
        }
    }

    #[inline]
    pub(super) fn task(&self) -> &CurrentTask {
        &self.task
    }

    /// Makes `task` the running task until the result is dropped.
    #[inline]
    pub(super) fn begin_task<'a>(&'a self, task: &'a Strand) -> RunningTask<'a> {
        self.task_budget.set(TASK_OPERATIONS);
        self.task.begin(task)
    }

    #[inline]
    pub(super) fn task_budget(&self) -> &Cell<u32> {
        &self.task_budget
    }

    #[inline]
    pub(super) fn budget(&self) -> &Cell<u32> {
        &self.budget
    }

    pub(super) fn owe_signal(&self, joiner: Owed) {
        self.joiner.set(Some(joiner));
    }

    #[inline]
    pub(super) fn take_owed(&self) -> Option<Owed> {
        self.joiner.take()
    }

    #[inline]
    pub(super) fn fresh_id(&self) -> NonZeroU64 {
        let (mut next, mut end) = self.ids.get();
        if next == end {
            next = fresh_ids(ID_BLOCK).get();
            end = next + ID_BLOCK;
        }
        self.ids.set((next + 1, end));
        NonZeroU64::new(next).expect("numbers begin at 1")
    }
}
