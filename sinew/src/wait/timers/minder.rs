//! Timers outside of runtimes: a kernel thread minds its own timers.

use super::Timers;
use crate::base::Deadline;
use crate::processor::cluster::ClusterShared;
use crate::processor::driver::Driver;
use crate::processor::with_current;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

thread_local! {
    /// The number of calls of `block_on` on this thread, outside of runtimes.
    static MINDED: Cell<u32> = const { Cell::new(0) };
    /// The timers of this thread, from the first use.
    static OWN: OnceCell<Arc<Timers>> = const { OnceCell::new() };
}

/// Minds the timers of a kernel thread that is not a processor, while it polls futures.
pub(crate) struct Minder {
    is_needed: bool,
}

impl Minder {
    /// Begins to mind the caller's timers. If the caller is a fibre, its processor minds them and
    /// this does nothing.
    pub(crate) fn begin() -> Minder {
        let is_needed = with_current(|processor| processor.is_none());
        if is_needed {
            MINDED.set(MINDED.get() + 1);
        }
        Minder { is_needed }
    }

    /// Returns the time at which to call `fire_due` next.
    pub(crate) fn next(&self) -> Deadline {
        if !self.is_needed {
            return Deadline::NEVER;
        }
        OWN.with(|own| own.get().map_or(Deadline::NEVER, |timers| timers.next()))
    }

    /// Fires the timers of this thread that are due.
    pub(crate) fn fire_due(&self) {
        if self.is_needed
            && let Some(timers) = OWN.with(|own| own.get().cloned())
        {
            timers.fire_due();
        }
    }
}

impl Drop for Minder {
    fn drop(&mut self) {
        if self.is_needed {
            MINDED.set(MINDED.get() - 1);
        }
    }
}

/// The timers in which a future has armed its own.
pub(crate) enum TimerOwner {
    Cluster(Arc<ClusterShared>),
    Thread(Arc<Timers>),
}

impl TimerOwner {
    /// Returns the timers of the caller.
    ///
    /// # Panics
    /// If there are none: outside of runtimes and of `block_on`.
    #[track_caller]
    pub(crate) fn current() -> TimerOwner {
        let cluster = with_current(|processor| processor.map(|processor| processor.cluster().to_arc()));
        match cluster {
            Some(cluster) => TimerOwner::Cluster(cluster),
            None if MINDED.get() > 0 => {
                TimerOwner::Thread(OWN.with(|own| Arc::clone(own.get_or_init(|| Arc::new(Timers::new())))))
            }
            None => panic!(
                "cannot wait for a time: there is no runtime here: await this in a task, or inside of `sinew::block_on`"
            ),
        }
    }

    pub(crate) fn timers(&self) -> &Timers {
        match self {
            TimerOwner::Cluster(cluster) => cluster.timers(),
            TimerOwner::Thread(timers) => timers,
        }
    }

    /// Returns whether these timers are minded for the place where the future is polled now. A future
    /// may have moved to another runtime, and its first runtime may end at any time.
    pub(crate) fn is_minded(&self) -> bool {
        match self {
            TimerOwner::Cluster(cluster) => with_current(|processor| match processor {
                Some(processor) => std::ptr::eq(processor.cluster(), &**cluster),
                None => MINDED.get() == 0,
            }),
            TimerOwner::Thread(timers) => OWN.with(|own| own.get().is_some_and(|own| Arc::ptr_eq(own, timers))),
        }
    }
}
