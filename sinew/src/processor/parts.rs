//! The parts of a processor that the strands on it, and the layers above, ask for.

use super::Processor;
use super::cluster::ClusterShared;
use super::current::RunningTask;
use super::post::Post;
use crate::base::here;
use crate::identity::Identities;
use crate::stack::pool::Stacks;
use crate::strand::blocks::Blocks;
use crate::strand::{Owed, Strand};
use std::cell::Cell;
use std::num::NonZeroU64;

impl Processor {
    pub(crate) fn cluster(&self) -> &ClusterShared {
        &self.cluster
    }

    #[inline]
    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    #[inline]
    pub(crate) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    #[inline]
    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns the units that fibres may still spend before one of them yields.
    #[inline]
    pub(crate) fn budget(&self) -> &Cell<u32> {
        self.running.budget()
    }

    /// Returns the number of operations that the running task may still do in this poll.
    #[inline]
    pub(crate) fn task_budget(&self) -> &Cell<u32> {
        self.running.task_budget()
    }

    /// Makes a reading of the clock due. A strand that has run for long calls this: when it gives
    /// way, it is stamped with the present time, and stands behind strands that were ready before it.
    pub(crate) fn read_clock_next(&self) {
        self.clock.read_next();
    }

    /// Returns the running task, if a task runs.
    #[inline]
    pub(crate) fn task(&self) -> Option<&Strand> {
        self.running.task().get()
    }

    /// Makes `task` the running task until the result is dropped.
    #[inline]
    pub(crate) fn begin_task<'a>(&'a self, task: &'a Strand) -> RunningTask<'a> {
        self.running.begin_task(task)
    }

    /// Says whether a strand runs the caller. If not, the processor has called it between two
    /// strands, as it calls wakers. Then the runtime may have no live strand.
    #[inline]
    pub(crate) fn runs_a_strand(&self) -> bool {
        !here::stack().is_null() || self.running.task().is_some()
    }

    /// Returns the identities of fibres, if they have their own.
    #[inline]
    pub(crate) fn identities(&self) -> Option<&Identities> {
        self.identities.as_ref()
    }

    /// Says whether started fibres may leave this processor.
    #[inline]
    pub(crate) fn is_migrating(&self) -> bool {
        self.migrating
    }

    #[inline]
    pub(crate) fn is_of_runtime(&self, cluster: &ClusterShared) -> bool {
        std::ptr::eq(cluster, &*self.cluster) || self.cluster.is_of_same_runtime(cluster)
    }

    #[inline]
    pub(crate) fn fresh_id(&self) -> NonZeroU64 {
        self.running.fresh_id()
    }

    /// Lets the processor signal the party that joined the calling strand, when that strand has
    /// ended. By then the strand's stack is free, and the party takes its place in the queue in one
    /// step.
    pub(crate) fn owe_signal(&self, joiner: Owed) {
        self.running.owe_signal(joiner);
    }
}
