#![doc = include_str!("README.md")]

mod builder;
pub(crate) mod carrier;
pub mod context;
mod group;
mod handle;
mod headcount;
mod join_future;
mod locals;
mod migrate;
#[cfg(all(test, sinew_loom))]
mod models;
mod overflow;
mod panic_message;
pub(crate) mod record;
mod scope;
mod select;

pub use builder::{FibreBuilder, spawn};
pub use group::{Group, GroupJoinHandle, try_scope};
pub use handle::{JoinHandle, SelfJoin};
pub use join_future::Joining;
pub use locals::{AccessError, LocalKey};
pub use migrate::migrate_to;
pub(crate) use overflow::install_overflow_handler;
pub(crate) use panic_message::install_panic_hook;
pub(crate) use scope::scope_in;
pub use scope::{Scope, ScopedJoinHandle, scope};

use crate::base::Deadline;
use crate::processor;
use crate::processor::roll::{Ending, Roll};
use crate::stack::current_stack;
use crate::strand::{After, Strand, StrandArc, fresh_ids};
use crate::wait::Why;
use crate::wait::{self, Cancel, budget};
pub(crate) use record::ENTRIES;
use record::Record;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// Calls `f` with the record of the calling fibre, if the caller is one. `f` must not suspend the
/// fibre.
#[inline]
pub(crate) fn with_record<R>(f: impl FnOnce(Option<&Record>) -> R) -> R {
    handle::with_current_record(f)
}

/// Returns whether the caller is a fibre.
#[inline]
pub(crate) fn is_running() -> bool {
    current_stack().is_some()
}

/// The number of a fibre. No two fibres of a process ever have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FibreId(NonZeroU64);

impl fmt::Display for FibreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A handle to a fibre, as `std::thread::Thread` is a handle to a thread. It identifies the fibre,
/// unparks it and cancels it. It keeps a few hundred bytes alive, not the fibre's stack.
///
/// [`current`] on a kernel thread that runs no fibre returns a handle to that thread, which is
/// parked and unparked in the same way.
#[derive(Clone)]
pub struct Fibre(Who);

#[derive(Clone)]
enum Who {
    Fibre(StrandArc),
    Kernel(Arc<KernelThread>),
}

/// A kernel thread that runs no fibre.
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

    /// Ends the [`park`] that the fibre is in. If it is in none, its next `park` returns at once:
    /// a fibre remembers one such token, not several. Does nothing if the fibre has finished.
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

    /// Asks the fibre to end what it does. From now on its blocking calls fail, if their results
    /// can say so: see [`cancel`](crate::cancel). Does nothing if the fibre has finished, or if
    /// this is a kernel thread.
    pub fn cancel(&self) {
        if let Some(record) = self.record() {
            record.cancel().cancel();
        }
    }

    /// Returns whether the fibre has been [cancelled](Fibre::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.record().is_some_and(|record| record.cancel().is_cancelled())
    }

    /// Returns the fibre's number.
    pub fn id(&self) -> FibreId {
        match &self.0 {
            Who::Fibre(strand) => FibreId(handle::record_of(strand).id()),
            Who::Kernel(kernel) => kernel.id,
        }
    }

    /// Returns whether the fibre has finished. For a kernel thread, returns `false`.
    pub(crate) fn is_finished(&self) -> bool {
        self.record().is_some_and(|record| record.join().is_done())
    }

    /// Returns the fibre's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Who::Fibre(strand) => handle::record_of(strand).name(),
            Who::Kernel(kernel) => kernel.thread.name(),
        }
    }

    /// Returns whether this is a kernel thread, not a fibre.
    pub fn is_kernel_thread(&self) -> bool {
        matches!(self.0, Who::Kernel(_))
    }
}

/// Enters a new fibre into the roll of its runtime. Few runtimes keep one.
#[cold]
#[inline(never)]
fn enter_roll(roll: &Roll, fibre: &Strand) {
    static ENDING: Ending = Ending {
        is_finished: |fibre| handle::record_of(fibre).join().is_done(),
        ask: |fibres| Cancel::cancel_all(fibres.iter().map(|fibre| handle::record_of(fibre).cancel())),
    };
    roll.enter(fibre, &ENDING);
}

impl fmt::Debug for Fibre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(record) = self.record() else {
            return f.debug_struct("KernelThread").field("id", &self.id().0).field("name", &self.name()).finish();
        };
        f.debug_struct("Fibre")
            .field("id", &record.id())
            .field("name", &record.name())
            .field("spawned_at", &format_args!("{}", record.spawned_at()))
            .field("is_finished", &self.is_finished())
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// Returns a handle to the calling fibre. On a kernel thread that runs no fibre, returns a handle to
/// that thread.
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

/// Gives other strands a turn. On a kernel thread that runs no fibre, gives other threads a turn.
#[inline(always)]
pub fn yield_now() {
    wait::yield_now();
}

/// Waits until another strand or thread calls [`Fibre::unpark`] on this fibre. Returns at once if
/// that has happened since the last `park`. May return without a reason, so call it in a loop. On
/// a kernel thread that runs no fibre, parks that thread.
#[inline(always)]
pub fn park() {
    match current_stack() {
        Some(stack) => {
            if stack.strand().state().take_token() {
                budget::spend(budget::MESSAGE);
            } else {
                Why::PARK.leave_in(stack.strand());
                wait::suspend(stack, After::Parking);
            }
        }
        None => wait::park_thread(std::thread::park),
    }
}

/// Waits as [`park`] does, but no longer than `timeout`.
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

/// Runs `f` with the fibre bound to its processor. Across all blocking calls in `f` the kernel
/// thread stays the same, and so do its `thread_local!` variables and its identity for a C library.
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
