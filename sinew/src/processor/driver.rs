//! What a cluster is equipped with from above: drivers, and the place where its kernel threads
//! are started.
//!
//! A *driver* is what makes strands ready besides other strands, and what a processor without
//! work sleeps in: timers, a readiness poller, a completion ring, a simulated kernel. A processor
//! knows drivers by this trait alone. The runtime plugs them in when it builds a cluster.
//!
//! | when | who | calls |
//! | --- | --- | --- |
//! | at each beat, every 16 µs | a busy processor | `fire_due`, `look_at_times` |
//! | it runs out of strands | the processor | `fire_due`; `look`, at most every 5 µs |
//! | it falls asleep | the sentinel, or each processor that the driver has a bed for | `until_next`, `bed`, [`Bed::sleep`] |
//! | it wakes up | the same | `fire_due` |
//! | it is told to retire | the thread that removes it | `bequeath`, before the processor knows |
//! | it has given away its strands | the retiring processor | `abandon` |
//! | a processor with this number is added | the thread that adds it | `reclaim` |
//! | the last strand of the runtime has ended | the thread that ends it | `stop`, after the processors |
//!
//! What a driver makes ready it passes to [`make_ready`](super::make_ready) and its kin, with no
//! lock held. If it learns of something that is due earlier than it told a sleeper, it calls
//! [`Idle::wake_sentinel`]. If all processors compute for long, nobody calls a driver: 16 µs is
//! the usual distance between two beats, not a promise.

use super::idle::Idle;
use crate::sched::ProcessorId;
use std::any::Any;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// See the module's documentation for who calls what when.
pub(crate) trait Driver: Any + Send + Sync {
    /// Makes the strands ready that are due. Costs no call of the kernel. Returns whether there
    /// were any.
    fn fire_due(&self) -> bool {
        false
    }

    /// Asks the kernel, without waiting, for a processor with nothing to do. Returns whether a
    /// strand has become ready.
    fn look(&self, _processor: ProcessorId, _now: u64) -> bool {
        false
    }

    /// Asks the kernel if nobody has for a while, for a busy processor. `gave_way` says that its
    /// last strand yielded in the midst of its work.
    fn look_at_times(&self, _processor: ProcessorId, _now: u64, _gave_way: bool) {}

    /// Returns how long the sentinel may sleep.
    fn until_next(&self) -> Option<Duration> {
        None
    }

    /// Returns what this processor sleeps in, if not on a word of its own.
    fn bed(&self, _processor: ProcessorId, _is_sentinel: bool) -> Option<&dyn Bed> {
        None
    }

    /// Leaves to `heir` what `retiring` minds. By a thread of the cluster's home, as `reclaim`.
    fn bequeath(&self, _retiring: ProcessorId, _heir: ProcessorId, _idle: &Idle) -> io::Result<()> {
        Ok(())
    }

    /// The retiring processor will not sleep in its bed any more.
    fn abandon(&self, _retiring: ProcessorId) {}

    /// Gives back to a new processor what an earlier one with its number bequeathed.
    fn reclaim(&self, _processor: ProcessorId) {}

    /// Nobody will look any more.
    fn stop(&self) {}
}

/// What a processor sleeps in, if not on a word of its own.
pub(crate) trait Bed {
    /// Returns the bell that ends a sleep.
    fn bell(&self) -> Arc<dyn Bell>;

    /// Sleeps until something has become ready, until the bell rings, or for `timeout`. Calls
    /// `woke` when the sleep is over, before it makes any strand ready: the bell need not ring
    /// for these strands. Returns the number of strands that it made ready.
    fn sleep(&self, timeout: Option<Duration>, woke: &dyn Fn()) -> usize;
}

/// Wakes a processor that sleeps in a [`Bed`]. It rings until that processor hears it, so a ring
/// that comes first is not lost.
pub(crate) trait Bell: Send + Sync {
    fn ring(self: Arc<Self>);
}

/// Starts the kernel threads of a cluster: in its home, the event scope that the cluster is in.
pub(crate) trait Threads: Any + Send + Sync {
    /// Starts a thread.
    fn spawn(&self, name: String, f: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

    /// Calls `f` on a thread of the home, and waits for it.
    fn call(&self, f: Box<dyn FnOnce() -> io::Result<()> + Send>) -> io::Result<()>;
}

/// The drivers of a cluster.
pub(crate) struct Drivers(Box<[Box<dyn Driver>]>);

impl Drivers {
    pub(crate) fn new(drivers: impl Into<Box<[Box<dyn Driver>]>>) -> Drivers {
        Drivers(drivers.into())
    }

    /// Returns the driver of this type, with which the cluster was built.
    #[inline]
    pub(crate) fn get<D: Driver>(&self) -> &D {
        self.0
            .iter()
            .find_map(|driver| (&**driver as &dyn Any).downcast_ref())
            .expect("a cluster is built with all drivers")
    }

    pub(super) fn fire_due(&self) -> bool {
        self.0.iter().fold(false, |any, driver| driver.fire_due() | any)
    }

    pub(super) fn look(&self, processor: ProcessorId, now: u64) -> bool {
        self.0.iter().fold(false, |any, driver| driver.look(processor, now) | any)
    }

    pub(super) fn look_at_times(&self, processor: ProcessorId, now: u64, gave_way: bool) {
        self.0.iter().for_each(|driver| driver.look_at_times(processor, now, gave_way));
    }

    pub(super) fn until_next(&self) -> Option<Duration> {
        self.0.iter().filter_map(|driver| driver.until_next()).min()
    }

    /// The first bed that there is: a processor sleeps in one place.
    pub(super) fn bed(&self, processor: ProcessorId, is_sentinel: bool) -> Option<&dyn Bed> {
        self.0.iter().find_map(|driver| driver.bed(processor, is_sentinel))
    }

    pub(super) fn bequeath(&self, retiring: ProcessorId, heir: ProcessorId, idle: &Idle) -> io::Result<()> {
        self.0.iter().try_for_each(|driver| driver.bequeath(retiring, heir, idle))
    }

    pub(super) fn abandon(&self, retiring: ProcessorId) {
        self.0.iter().for_each(|driver| driver.abandon(retiring));
    }

    pub(super) fn reclaim(&self, processor: ProcessorId) {
        self.0.iter().for_each(|driver| driver.reclaim(processor));
    }

    pub(super) fn stop(&self) {
        self.0.iter().for_each(|driver| driver.stop());
    }
}
