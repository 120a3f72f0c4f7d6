//! What the layers above give to a cluster: drivers, and the place where its kernel threads are
//! started.
//!
//! A *driver* makes strands ready besides other strands, and is what a processor without work
//! sleeps in. It also makes the calls that strands leave with their processor. Timers, pollers and batches
//! are drivers; so is a simulated kernel, which a test plugs in (`runtime/simulated.rs`). A processor
//! knows drivers by this trait alone. The runtime plugs them in when it builds a cluster.
//!
//! | when | caller | calls |
//! | --- | --- | --- |
//! | at each beat, every 16 µs | a busy processor | `fire_due`, `look_at_times` |
//! | a processor runs out of strands | that processor | `fire_due`; `look`, at most every 5 µs |
//! | the sentinel falls asleep | the sentinel | `bed`, `until_next`, [`Bed::sleep`] |
//! | another processor falls asleep | that processor | `bed`, and [`Bed::sleep`] if there is one |
//! | the sentinel wakes up | the sentinel | `fire_due` |
//! | a processor has calls in its outbox, and reasons to make them | that processor, or another one that helps | `carry_out` |
//! | a processor is removed | a thread of the cluster's home | `bequeath`, before the processor knows |
//! | a retiring processor detaches | that processor | `abandon` |
//! | a processor is added | a thread of the cluster's home | `reclaim` |
//! | the last strand of the runtime has finished | the thread that ends the runtime | `stop`, after the processors |
//!
//! A driver passes the strands that it makes ready to [`make_ready`](super::make_ready) or
//! [`make_all_ready`](super::make_all_ready), and holds no lock then. If a driver learns of
//! something that is due earlier than it told a sleeper, it calls [`Idle::wake_sentinel`]. If all
//! processors compute for long, no thread calls a driver: 16 µs is the usual distance between two
//! beats, not a promise.

use super::idle::Idle;
use super::outbox::Taken;
use crate::sched::ProcessorId;
use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Makes strands ready besides other strands. The module's documentation says when each method is
/// called, and by which thread.
pub(crate) trait Driver: Any + Send + Sync {
    /// Makes the strands ready that are due, without asking the kernel for events. Returns whether
    /// there were any.
    fn fire_due(&self) -> bool {
        false
    }

    /// Asks the kernel for events, without waiting, for a processor that has nothing to do. Returns
    /// whether a strand has become ready.
    fn look(&self, _processor: ProcessorId, _now: u64) -> bool {
        false
    }

    /// Asks the kernel for events, without waiting, for a busy processor, if no thread has asked for
    /// a while. `gave_way` says that the processor's last strand yielded.
    fn look_at_times(&self, _processor: ProcessorId, _now: u64, _gave_way: bool) {}

    /// Returns how long the sentinel may sleep; `None` if the driver sets no bound.
    fn until_next(&self) -> Option<Duration> {
        None
    }

    /// Returns what this processor sleeps in; `None` if it sleeps on a word of its own.
    fn bed(&self, _processor: ProcessorId, _is_sentinel: bool) -> Option<&dyn Bed> {
        None
    }

    /// Says whether the driver carries out calls that strands leave with their processor.
    fn takes_calls(&self) -> bool {
        false
    }

    /// Makes the calls that strands have left with this processor, and `own`, which is of the strand
    /// that runs the caller. All have been made when this returns, and their strands are ready. Returns
    /// whether they were a batch: if not, it does not pay to leave more.
    fn carry_out(&self, _processor: ProcessorId, _calls: Taken<'_>, _own: Option<NonNull<()>>) -> bool {
        false
    }

    /// Lets `heir` mind what `retiring` minds.
    ///
    /// # Errors
    /// The kernel's. Then `retiring` goes on serving.
    fn bequeath(&self, _retiring: ProcessorId, _heir: ProcessorId, _idle: &Idle) -> io::Result<()> {
        Ok(())
    }

    /// Notes that the retiring processor will not sleep in its bed any more.
    fn abandon(&self, _retiring: ProcessorId) {}

    /// Gives back to a new processor what an earlier processor with its number bequeathed.
    fn reclaim(&self, _processor: ProcessorId) {}

    /// Ends the driver: no processor calls it any more.
    fn stop(&self) {}
}

/// The part of a driver that a processor sleeps in.
pub(crate) trait Bed {
    /// Returns the bell that ends a sleep.
    fn bell(&self) -> Arc<dyn Bell>;

    /// Sleeps until there are events, until the bell rings, or until `timeout` has passed. Calls
    /// `woke` when the sleep is over, before it makes any strand ready: the bell need not ring
    /// for these strands. Returns the number of parties that go on.
    fn sleep(&self, timeout: Option<Duration>, woke: &dyn Fn()) -> usize;
}

/// Wakes a processor that sleeps in a [`Bed`]. The bell rings until that processor hears it, so a
/// ring that comes before the sleep is not lost.
pub(crate) trait Bell: Send + Sync {
    fn ring(self: Arc<Self>);
}

/// Starts the kernel threads of a cluster: in its home, the event scope that the cluster is in.
pub(crate) trait Threads: Any + Send + Sync {
    /// Starts a thread.
    fn spawn(&self, name: String, f: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

    /// Calls `f` on a thread of the home, and waits until it returns. Returns its result.
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

    pub(crate) fn look(&self, processor: ProcessorId, now: u64) -> bool {
        self.0.iter().fold(false, |any, driver| driver.look(processor, now) | any)
    }

    pub(super) fn look_at_times(&self, processor: ProcessorId, now: u64, gave_way: bool) {
        self.0.iter().for_each(|driver| driver.look_at_times(processor, now, gave_way));
    }

    pub(super) fn until_next(&self) -> Option<Duration> {
        self.0.iter().filter_map(|driver| driver.until_next()).min()
    }

    /// Returns the first bed that a driver has: a processor sleeps in one place.
    pub(super) fn bed(&self, processor: ProcessorId, is_sentinel: bool) -> Option<&dyn Bed> {
        self.0.iter().find_map(|driver| driver.bed(processor, is_sentinel))
    }

    pub(super) fn takes_calls(&self) -> bool {
        self.0.iter().any(|driver| driver.takes_calls())
    }

    /// As [`Driver::carry_out`], by the driver that takes calls.
    pub(super) fn carry_out(&self, processor: ProcessorId, calls: Taken<'_>, own: Option<NonNull<()>>) -> bool {
        let driver = self.0.iter().find(|driver| driver.takes_calls());
        driver.expect("calls are left only if a driver takes them").carry_out(processor, calls, own)
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
