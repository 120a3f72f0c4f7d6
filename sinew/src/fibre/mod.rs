#![doc = include_str!("README.md")]

mod builder;
mod handle;
mod headcount;
mod join_future;
mod locals;
mod migrate;
#[cfg(all(test, sinew_loom))]
mod models;
mod overflow;
pub(crate) mod record;
mod scope;

pub use builder::{FibreBuilder, spawn};
pub use handle::{JoinHandle, SelfJoin};
pub use join_future::Joining;
pub use locals::{AccessError, LocalKey};
pub use migrate::migrate_to;
pub(crate) use overflow::install_overflow_handler;
pub(crate) use scope::scope_in;
pub use scope::{Scope, ScopedJoinHandle, scope};

use crate::base::Deadline;
use crate::processor;
use crate::stack::current_stack;
use crate::strand::{After, StrandArc, fresh_ids};
use crate::wait::{self, budget};
use record::Record;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// Calls `f` with the record of the fibre that calls, if a fibre calls. `f`
/// must not suspend the fibre.
#[inline]
pub(crate) fn with_record<R>(f: impl FnOnce(Option<&Record>) -> R) -> R {
    handle::with_current_record(f)
}

/// Whether a fibre runs the caller.
#[inline]
pub(crate) fn is_running() -> bool {
    current_stack().is_some()
}

/// A number that no other fibre of the process has, or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FibreId(NonZeroU64);

impl fmt::Display for FibreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A handle to a fibre, as `std::thread::Thread` is one to a thread: it says
/// who the fibre is, and unparks it. It keeps a few hundred bytes alive, not
/// the fibre's stack.
///
/// [`current`] on a kernel thread that runs no fibre returns a handle to that
/// thread, which is parked and unparked in the same way.
#[derive(Clone)]
pub struct Fibre(Who);

#[derive(Clone)]
enum Who {
    Fibre(StrandArc),
    Kernel(Arc<KernelThread>),
}

/// A kernel thread that is not a processor, or one outside of its fibres.
struct KernelThread {
    thread: std::thread::Thread,
    id: FibreId,
}

impl Fibre {
    pub(crate) fn of(strand: StrandArc) -> Fibre {
        Fibre(Who::Fibre(strand))
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.0 {
            Who::Fibre(strand) => Some(handle::record_of(strand)),
            Who::Kernel(_) => None,
        }
    }

    /// Lets the fibre go on: it returns from the [`park`] that it is in, or else
    /// from the next one. One such token is remembered, not several. To unpark
    /// a fibre that has finished does nothing.
    #[inline]
    pub fn unpark(&self) {
        match &self.0 {
            Who::Fibre(strand) => {
                if let Some(ready) = strand.strand().unpark() {
                    processor::make_ready(ready);
                }
            }
            Who::Kernel(kernel) => kernel.thread.unpark(),
        }
    }

    /// Asks the fibre to end what it does: what blocks in it, and can say so, fails
    /// from now on. See [`cancel`](crate::cancel). Nothing happens to a fibre that has
    /// finished, nor to a kernel thread.
    pub fn cancel(&self) {
        if let Some(record) = self.record() {
            record.cancel().cancel();
        }
    }

    /// Whether it has been [cancelled](Fibre::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.record().is_some_and(|record| record.cancel().is_requested())
    }

    /// A number that no other fibre of the process has, or had.
    pub fn id(&self) -> FibreId {
        match &self.0 {
            Who::Fibre(strand) => FibreId(handle::record_of(strand).id()),
            Who::Kernel(kernel) => kernel.id,
        }
    }

    /// Whether it has finished. A kernel thread never has.
    pub(crate) fn is_finished(&self) -> bool {
        self.record().is_some_and(|record| record.join().is_done())
    }

    /// The name that it was given.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Who::Fibre(strand) => handle::record_of(strand).name(),
            Who::Kernel(kernel) => kernel.thread.name(),
        }
    }

    /// Whether this stands for a kernel thread rather than a fibre.
    pub fn is_kernel_thread(&self) -> bool {
        matches!(self.0, Who::Kernel(_))
    }
}

impl fmt::Debug for Fibre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Fibre");
        debug.field("id", &self.id()).field("name", &self.name());
        if let Some(record) = self.record() {
            debug.field("spawned_at", &format_args!("{}", record.spawned_at()));
        }
        debug.finish()
    }
}

/// A handle to the fibre that calls; on a kernel thread that runs no fibre, one
/// to that thread.
pub fn current() -> Fibre {
    thread_local!(static KERNEL: Arc<KernelThread> = Arc::new(KernelThread {
        thread: std::thread::current(),
        id: FibreId(fresh_ids(1)),
    }));
    with_record(|record| match record {
        Some(record) => Fibre::of(StrandArc::new(record.strand())),
        None => Fibre(Who::Kernel(KERNEL.with(Arc::clone))),
    })
}

/// Gives other fibres a turn. On a kernel thread that runs no fibre it gives
/// other threads one.
#[inline(always)]
pub fn yield_now() {
    wait::yield_now();
}

/// Waits until somebody calls [`Fibre::unpark`] on this fibre; returns at once
/// if that has happened since the last `park`. May return without a reason, so
/// it belongs in a loop. On a kernel thread that runs no fibre it parks that
/// thread.
#[inline(always)]
pub fn park() {
    match current_stack() {
        Some(stack) => {
            if stack.strand().state().take_token() {
                budget::spend(budget::MESSAGE);
            } else {
                wait::suspend(stack, After::Parking);
            }
        }
        None => wait::park_thread(std::thread::park),
    }
}

/// As [`park`], but for no longer than `timeout`.
pub fn park_timeout(timeout: Duration) {
    match current_stack() {
        Some(stack) => {
            if stack.strand().state().take_token() {
                budget::spend(budget::MESSAGE);
            } else {
                wait::park_until(stack, Deadline::after(timeout));
            }
        }
        None => wait::park_thread(|| std::thread::park_timeout(timeout)),
    }
}

/// Runs `f` with the fibre bound to the processor that it is on, so that what
/// belongs to the kernel thread (its `thread_local!` variables, its identity
/// for a C library) stays the same across everything in `f` that blocks.
///
/// ```
/// sinew::run(|| {
///     let (before, after) = sinew::pinned(|| {
///         let before = std::thread::current().id();
///         sinew::yield_now();
///         (before, std::thread::current().id())
///     });
///     assert_eq!(before, after);
/// });
/// ```
pub fn pinned<R>(f: impl FnOnce() -> R) -> R {
    struct Unpin;
    impl Drop for Unpin {
        fn drop(&mut self) {
            with_record(|record| record.expect("pinned code runs in its fibre").head().unpin());
        }
    }
    let in_fibre = with_record(|record| record.map(|record| record.head().pin()).is_some());
    let _unpin = in_fibre.then(|| Unpin);
    f()
}
