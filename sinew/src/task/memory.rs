//! The memory of a task, and its wakers: everything about tasks that is `unsafe`.
//!
//! One allocation: the strand, and behind it the future, later the result. It is freed with the last
//! reference. One reference is the task's own, for being alive; the others are wakers and handles. The
//! future is dropped when the task ends, even if wakers are left.
#![allow(unsafe_code)]

use super::handle::JoinError;
use super::life::{Begin, Life};
use crate::base::describe::{Entry, Symbol};
use crate::base::peek;
use crate::processor::spawn::Origin;
use crate::processor::stall::{Portrait, StrandKind};
use crate::processor::waker::borrowed_waker;
use crate::processor::{Processor, put_record, with_current};
use crate::strand::blocks;
use crate::strand::join::{Completed, Detached, Join};
use crate::strand::{After, Class, Face, Kind, Priority, Ready, Strand, StrandArc, Weight, bound, container};
use crate::wait::{Reason, Why};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// Aligned as strands are to be.
#[repr(C, align(64))]
struct Allocation<F: Future> {
    /// First, so that a pointer to it is one to the allocation. Its flag is the task's
    /// [`Life`], its own word the [`Join`].
    strand: Strand,
    /// For readers of memory.
    spawned_at: &'static Location<'static>,
    /// Owner: the processor that runs the task, until `Join::complete`; then the task or the handle, as
    /// `complete` says.
    stage: UnsafeCell<Stage<F>>,
}

/// The place in the program that a task is spawned at.
pub(super) type Site = &'static Location<'static>;

/// The entries of the description. The place is the same for all futures.
pub(crate) const ENTRIES: &[Entry] =
    &[Entry::number("task.spawned_at", offset_of!(Allocation<std::future::Ready<()>>, spawned_at))];

/// Draws the task at this address, which is of this kind. By any thread, and by a signal handler.
pub(crate) fn portray(address: usize, kind: &'static Kind, portrait: &mut Portrait) {
    portrait.kind = Some(StrandKind::Task);
    portrait.type_name = kind.face.type_name();
    let place = offset_of!(Allocation<std::future::Ready<()>>, spawned_at);
    portrait.spawned_at = peek::word(address.wrapping_add(place)).unwrap_or(0);
}

enum Stage<F: Future> {
    Future(F),
    Result(Result<F::Output, JoinError>),
    Empty,
}

/// Creates a task that is ready for its first poll.
#[inline]
pub(super) fn create<F>(origin: &Origin<'_>, priority: Priority, site: Site, future: F) -> (Ready, Taker<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future is `Send` and borrows nothing.
    unsafe { create_any(origin, priority, site, future) }
}

/// Creates a task that is ready for its first poll and bound to the calling processor.
pub(super) fn create_bound<F>(
    origin: &Origin<'_>,
    processor: &Processor,
    site: Site,
    future: F,
) -> (Ready, Taker<F::Output>)
where
    F: Future + 'static,
    F::Output: 'static,
{
    // SAFETY: bound below, before another thread gets it; it borrows nothing.
    let (ready, taker) = unsafe { create_any(origin, Priority::Normal, site, future) };
    taker.task().strand().bind(processor.post(), bound::PINNED);
    (ready, taker)
}

/// # Safety
/// If `F` is not `Send`, the caller binds the strand to the calling processor before any other thread
/// gets it. If `F` borrows, what it borrows outlives the task.
#[inline]
unsafe fn create_any<F: Future>(
    origin: &Origin<'_>,
    priority: Priority,
    site: Site,
    future: F,
) -> (Ready, Taker<F::Output>) {
    let memory = blocks::take_record(origin.blocks(), Layout::new::<Allocation<F>>()).cast::<Allocation<F>>();
    // SAFETY: the memory is large enough, and ours.
    let (strand, stage) = unsafe { (&raw mut (*memory.as_ptr()).strand, &raw mut (*memory.as_ptr()).stage) };
    // SAFETY: as above.
    unsafe { (&raw mut (*memory.as_ptr()).spawned_at).write(site) };
    // SAFETY: as above.
    unsafe { stage.write(UnsafeCell::new(Stage::Future(future))) };
    // SAFETY: as above.
    unsafe { strand.write(Strand::new(Allocation::<F>::KIND, origin.cluster(), priority)) };
    // SAFETY: the strand is new, and its kind frees it.
    let (ready, task) = unsafe { Ready::of_new(memory.cast()) };
    (ready, Taker { task, take: Allocation::<F>::take, taken: false, result: PhantomData })
}

/// Returns the join word of a task.
#[inline]
pub(super) fn join_of(task: &Strand) -> Join<'_> {
    Join::of(task.own())
}

/// The right to the result of a task whose future's type is not known. There is one for each task. Its
/// drop gives the right up.
pub(super) struct Taker<T> {
    task: StrandArc,
    /// # Safety
    /// To be called with `task`, when its join word says DONE and has not said DETACHED.
    take: unsafe fn(&Strand) -> Option<Result<T, JoinError>>,
    taken: bool,
    result: PhantomData<*mut T>,
}

// SAFETY: a taker gives `T` from the task's side to the holder's, once.
unsafe impl<T: Send> Send for Taker<T> {}
// SAFETY: nothing of `T` can be reached through a shared taker.
unsafe impl<T> Sync for Taker<T> {}

impl<T> Taker<T> {
    #[inline]
    pub(super) fn task(&self) -> &StrandArc {
        &self.task
    }

    /// Returns the join word. Only the drop of the taker detaches it.
    #[inline]
    pub(super) fn join(&self) -> Join<'_> {
        join_of(self.task.strand())
    }

    /// Takes the result. Returns `None` if the task has not ended, or if the result has been taken.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Result<T, JoinError>> {
        if self.taken || !self.join().is_done() {
            return None;
        }
        self.taken = true;
        // SAFETY: the word says DONE. It has not said DETACHED: only `drop` detaches, and does not get
        // here then.
        unsafe { (self.take)(self.task.strand()) }
    }
}

impl<T> Drop for Taker<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.taken && self.join().detach() == Detached::Done {
            drop(self.take());
        }
    }
}

impl<F: Future> Allocation<F> {
    const KIND: &'static Kind = &Kind {
        face: Face::new(Class::Task, Symbol::of(F::poll as *const ())).named(Some(std::any::type_name::<F>)),
        run: Self::run,
        free: Self::free,
        weigh: Weight::unknown,
        nature: None,
    };

    /// # Safety
    /// `strand` is at the start of one of these.
    #[inline]
    unsafe fn stage(strand: &Strand) -> *mut Stage<F> {
        let allocation = container::<Self>(NonNull::from(strand)).as_ptr();
        // SAFETY: by the contract.
        UnsafeCell::raw_get(unsafe { &raw const (*allocation).stage })
    }

    /// Polls the future that `strand` is for.
    fn run(strand: &Strand) -> After {
        with_current(|processor| Self::run_on(strand, processor.expect("strands run on processors")))
    }

    fn run_on(strand: &Strand, processor: &Processor) -> After {
        let _running = processor.begin_task(strand);
        // SAFETY: this is the `run` of a kind that such allocations have alone.
        let stage = unsafe { Self::stage(strand) };
        if Life::of(strand).begin() == Begin::End {
            return Self::end(strand, processor, stage, Err(JoinError::aborted()));
        }
        let waker = borrowed_waker(strand);
        let mut context = Context::from_waker(&waker);
        strand.after().set(After::Parking);
        Why::of(Reason::Unknown, 0).leave_in(strand);
        // SAFETY: a task that has not ended has its future, which is the processor's and
        // is not moved before it is dropped.
        let Stage::Future(future) = (unsafe { &mut *stage }) else {
            crate::base::fatal("a task ran that had ended");
        };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(future) };
        match catch_unwind(AssertUnwindSafe(|| future.poll(&mut context))) {
            Ok(Poll::Pending) => strand.after().get(),
            Ok(Poll::Ready(value)) => Self::end(strand, processor, stage, Ok(value)),
            Err(payload) => Self::end(strand, processor, stage, Err(JoinError::panicked(payload))),
        }
    }

    /// Drops the future and hands the result over.
    fn end(
        strand: &Strand,
        processor: &Processor,
        stage: *mut Stage<F>,
        mut result: Result<F::Output, JoinError>,
    ) -> After {
        // SAFETY: the stage is the processor's, and holds the future, which is dropped where
        // it is. Whatever becomes of that, it is written anew below.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unsafe { stage.drop_in_place() })) {
            result = match result {
                // The first panic is the one to be told of.
                Err(error) if error.is_panic() => {
                    quietly(|| drop(payload));
                    Err(error)
                }
                Err(_) => Err(JoinError::panicked(payload)),
                Ok(value) => {
                    quietly(|| drop(value));
                    Err(JoinError::panicked(payload))
                }
            };
        }
        // SAFETY: as above.
        unsafe { stage.write(Stage::Result(result)) };
        strand.unbind(u8::MAX);
        match join_of(strand).complete() {
            Completed::Kept => {}
            // SAFETY: there is no handle any more, so the result is ours.
            Completed::Unwanted => quietly(|| drop(unsafe { stage.replace(Stage::Empty) })),
            Completed::Wake(waiter) => processor.owe_signal(waiter),
        }
        After::Finished
    }

    /// # Safety
    /// As for the field `take` of [`Taker`].
    unsafe fn take(strand: &Strand) -> Option<Result<F::Output, JoinError>> {
        // SAFETY: by the contract.
        match unsafe { Self::stage(strand).replace(Stage::Empty) } {
            Stage::Result(result) => Some(result),
            _ => None,
        }
    }

    /// # Safety
    /// The strand is at the start of one of these, and no reference to it is left.
    unsafe fn free(strand: NonNull<Strand>) {
        let allocation = container::<Self>(strand);
        // SAFETY: `create` made it, and no reference is left.
        unsafe { allocation.drop_in_place() };
        // SAFETY: as above; the layout is the one that it was taken with.
        unsafe { put_record(allocation.cast(), Layout::new::<Self>()) };
    }
}

/// Calls `f` and drops its panic, which the hook has reported.
fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Its drop might panic again.
        std::mem::forget(payload);
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn header_join_state_and_place_take_nine_words_beside_the_future() {
        type Empty = std::future::Ready<()>;
        let stage = size_of::<Stage<Empty>>();
        assert_eq!(offset_of!(Allocation<Empty>, stage), 72);
        assert!(size_of::<Allocation<Empty>>() <= (72 + stage).next_multiple_of(64));
        // The result takes the future's place: what a stage adds is the word that tells them apart.
        assert!(size_of::<Stage<std::future::Ready<[u64; 8]>>>() <= size_of::<std::future::Ready<[u64; 8]>>() + 8);
    }
}
