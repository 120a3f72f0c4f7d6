//! `Once`, with std's signatures and poisoning.
//!
//! A [`Stage`] under a spin lock says what has happened so far:
//!
//! ```text
//!   Untouched --call--> Running --the closure returns--> Done
//!                       Running --the closure panics, or its future is dropped--> Poisoned
//!   Poisoned --call with force--> Running
//! ```
//!
//! Next to it is the queue of callers that wait for the next change. Beside both is a flag
//! that says Done: callers that come later look at nothing else.

use crate::base::Deadline;
use crate::base::atomic::{Acquire, AtomicBool, Release, const_fn, of_thread};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::with_stackful;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

/// Something that is done once: `std::sync::Once` for fibres, and kernel threads too.
///
/// ```
/// use sinew::sync::Once;
/// static START: Once = Once::new();
/// sinew::run(|| {
///     for _ in 0..10 {
///         sinew::spawn(|| START.call_once(|| println!("by the first fibre that came")));
///     }
/// });
/// assert!(START.is_completed());
/// ```
pub struct Once {
    /// Whether the stage is `Done`. Written under the lock, read without it.
    done: AtomicBool,
    inner: SpinLock<Inner>,
}

struct Inner {
    stage: Stage,
    /// Callers that wait for the stage to change.
    queue: Queue<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Untouched,
    /// The last closure that was called did not return.
    Poisoned,
    /// A closure is running, called by this [`caller`].
    Running(usize),
    Done,
}

/// What [`Once::call_once_force`] tells the closure that it calls.
pub struct OnceState {
    poisoned: bool,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

// As std's, it has no `Default`.
#[allow(clippy::new_without_default)]
impl Once {
    const_fn! {
        /// Makes a `Once` that has called no closure yet.
        pub fn new() -> Once {
            let inner = Inner { stage: Stage::Untouched, queue: Queue::new() };
            Once { done: AtomicBool::new(false), inner: SpinLock::new(inner) }
        }
    }

    /// Returns whether a closure has been called and has returned. The caller then sees what
    /// it did.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // Acquire pairs with the Release in `Running::drop`.
        self.done.load(Acquire)
    }

    /// Calls `f`, unless a closure has been called already. If a closure is running, waits for
    /// it. When this returns, one closure has returned.
    ///
    /// # Panics
    /// If `f` panics: then the `Once` is poisoned. If it had been poisoned before. If the caller
    /// is inside a closure that this same `Once` has called.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call_slow(Poison::Panic, &mut |_| f.take().expect("the closure is called once")());
        }
    }

    /// As [`call_once`](Once::call_once), but calls `f` also if the `Once` is poisoned.
    ///
    /// # Panics
    /// If `f` panics; if the caller is inside a closure that this same `Once` has called.
    #[inline]
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call_slow(Poison::Ignore, &mut |state| f.take().expect("the closure is called once")(state));
        }
    }

    /// As [`call_once`](Once::call_once), for tasks. If the future is dropped while `f` is at
    /// work, the `Once` is poisoned. A closure that awaits the `Once` that has called it waits
    /// for ever.
    ///
    /// # Panics
    /// If `f` panics: then the `Once` is poisoned. If it had been poisoned before.
    pub async fn call_once_async<F: AsyncFnOnce()>(&self, f: F) {
        if let Some(running) = self.begin(Poison::Panic).await {
            f().await;
            running.done();
        }
    }

    /// As [`call_once_async`](Once::call_once_async), but calls `f` also if the `Once` is
    /// poisoned.
    ///
    /// # Panics
    /// If `f` panics.
    pub async fn call_once_force_async<F: AsyncFnOnce(&OnceState)>(&self, f: F) {
        if let Some(running) = self.begin(Poison::Ignore).await {
            f(&running.state()).await;
            running.done();
        }
    }

    /// Waits until another caller's closure has returned.
    ///
    /// # Panics
    /// If a closure panics, or has panicked before. If the caller is inside a closure that this
    /// same `Once` has called.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_within(Poison::Panic, Limit::NONE);
    }

    /// As [`wait`](Once::wait), but goes on waiting if a closure panics.
    ///
    /// # Panics
    /// If the caller is inside a closure that this same `Once` has called.
    #[track_caller]
    pub fn wait_force(&self) {
        self.wait_within(Poison::Ignore, Limit::NONE);
    }

    /// As [`wait`](Once::wait), but for no longer than `timeout`. Returns whether a closure has
    /// returned.
    ///
    /// # Panics
    /// As `wait`.
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.wait_within(Poison::Panic, Limit::until(Deadline::after(timeout)))
    }

    /// As [`wait_timeout`](Once::wait_timeout), but until `deadline`.
    ///
    /// # Panics
    /// As `wait`.
    #[track_caller]
    pub fn wait_deadline(&self, deadline: Instant) -> bool {
        self.wait_within(Poison::Panic, Limit::until(Deadline::at(deadline)))
    }

    /// As [`wait_force`](Once::wait_force), but for no longer than `timeout`. Returns whether a
    /// closure has returned.
    ///
    /// # Panics
    /// As `wait_force`.
    #[track_caller]
    pub fn wait_force_timeout(&self, timeout: Duration) -> bool {
        self.wait_within(Poison::Ignore, Limit::until(Deadline::after(timeout)))
    }

    /// As [`wait_force_timeout`](Once::wait_force_timeout), but until `deadline`.
    ///
    /// # Panics
    /// As `wait_force`.
    #[track_caller]
    pub fn wait_force_deadline(&self, deadline: Instant) -> bool {
        self.wait_within(Poison::Ignore, Limit::until(Deadline::at(deadline)))
    }

    /// As [`wait`](Once::wait), but notices [cancellation](crate::cancel). Returns whether a
    /// closure has run. If not, the caller is cancelled, or a deadline that it carries has passed.
    ///
    /// # Panics
    /// As `wait`.
    #[track_caller]
    pub fn wait_cancellable(&self) -> bool {
        self.wait_within(Poison::Panic, Limit::CARRIED)
    }

    /// As [`wait_force`](Once::wait_force), but notices cancellation as
    /// [`wait_cancellable`](Once::wait_cancellable) does.
    #[track_caller]
    pub fn wait_force_cancellable(&self) -> bool {
        self.wait_within(Poison::Ignore, Limit::CARRIED)
    }

    /// As [`wait`](Once::wait), for tasks.
    ///
    /// # Panics
    /// If a closure panics, or has panicked before.
    pub async fn wait_async(&self) {
        self.wait_for(Poison::Panic).await;
    }

    /// As [`wait_force`](Once::wait_force), for tasks.
    pub async fn wait_force_async(&self) {
        self.wait_for(Poison::Ignore).await;
    }

    pub(super) async fn wait_for(&self, poison: Poison) {
        while let Some((inner, _)) = self.lock_unless_done(poison) {
            self.change(inner).await;
        }
    }

    /// Waits, within `limit`. Returns whether a closure has returned.
    #[track_caller]
    pub(super) fn wait_within(&self, poison: Poison, limit: Limit) -> bool {
        while let Some((inner, runner)) = self.lock_unless_done(poison) {
            let by_caller = runner.is_some_and(|runner| runner == caller());
            if self.wait_for_change(inner, by_caller, limit) != Outcome::Told {
                return self.is_completed();
            }
        }
        true
    }

    /// Returns the lock, under which the caller may enter the queue, and the number of the
    /// running closure's caller; `None` if a closure has returned.
    #[track_caller]
    fn lock_unless_done(&self, poison: Poison) -> Option<(SpinGuard<'_, Inner>, Option<usize>)> {
        if self.is_completed() {
            return None;
        }
        let inner = self.inner.lock();
        match inner.stage {
            Stage::Done => None,
            Stage::Poisoned if poison == Poison::Panic => {
                drop(inner);
                panic_poisoned()
            }
            Stage::Untouched | Stage::Poisoned => Some((inner, None)),
            Stage::Running(runner) => Some((inner, Some(runner))),
        }
    }

    #[cold]
    #[track_caller]
    fn call_slow(&self, poison: Poison, f: &mut dyn FnMut(&OnceState)) {
        let caller = caller();
        let running = loop {
            match self.begin_as(caller, poison) {
                Begun::Done => return,
                Begun::Ours(running) => break running,
                Begun::Theirs(inner, runner) => {
                    let _ = self.wait_for_change(inner, runner == caller, Limit::NONE);
                }
            }
        };
        f(&running.state());
        running.done();
    }

    /// Waits, as a task, for the right to call a closure. Returns `None` when a closure has
    /// returned.
    pub(super) async fn begin(&self, poison: Poison) -> Option<Running<'_>> {
        loop {
            match self.begin_as(SOME_TASK, poison) {
                Begun::Done => return None,
                Begun::Ours(running) => return Some(running),
                Begun::Theirs(inner, _) => self.change(inner).await,
            }
        }
    }

    /// `Untouched | Poisoned -> Running(caller)`.
    #[track_caller]
    fn begin_as(&self, caller: usize, poison: Poison) -> Begun<'_> {
        if self.is_completed() {
            return Begun::Done;
        }
        let mut inner = self.inner.lock();
        let was_poisoned = match inner.stage {
            Stage::Done => return Begun::Done,
            Stage::Running(runner) => return Begun::Theirs(inner, runner),
            Stage::Untouched => false,
            Stage::Poisoned => true,
        };
        if was_poisoned && poison == Poison::Panic {
            drop(inner);
            panic_poisoned();
        }
        inner.stage = Stage::Running(caller);
        Begun::Ours(Running { once: self, was_poisoned, ends_as: Stage::Poisoned })
    }

    /// Ends when the stage has changed.
    fn change<'a>(&'a self, inner: SpinGuard<'a, Inner>) -> impl Future<Output = ()> + use<'a> {
        wait_in_async(
            &self.inner,
            inner,
            |inner| &mut inner.queue,
            End::Back.of(Why::at(Reason::Once, self)),
            (),
            || (),
            |_, ()| (),
        )
    }

    /// Waits until the stage has changed.
    #[track_caller]
    fn wait_for_change(&self, inner: SpinGuard<'_, Inner>, by_caller: bool, limit: Limit) -> Outcome {
        if by_caller {
            drop(inner);
            panic!("a closure waits for the Once that has called it");
        }
        wait_in(
            &self.inner,
            inner,
            |inner| &mut inner.queue,
            End::Back.of(Why::at(Reason::Once, self)),
            (),
            limit,
            || (),
        )
        .0
    }
}

#[cold]
#[track_caller]
fn panic_poisoned() -> ! {
    panic!("Once instance has previously been poisoned");
}

/// What a caller finds that has a closure to call.
enum Begun<'a> {
    /// A closure has returned.
    Done,
    /// The caller is to call its closure.
    Ours(Running<'a>),
    /// This caller's closure is running. With the lock, under which others may enter the queue.
    Theirs(SpinGuard<'a, Inner>, usize),
}

/// What to do if the `Once` is poisoned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    Panic,
    Ignore,
}

/// A closure that is running. Exists only in the stage `Running`, which its drop ends.
pub(super) struct Running<'a> {
    once: &'a Once,
    was_poisoned: bool,
    /// `Poisoned`, until the closure has returned.
    ends_as: Stage,
}

impl Running<'_> {
    fn state(&self) -> OnceState {
        OnceState { poisoned: self.was_poisoned }
    }

    /// `Running -> Done`: the closure has returned.
    pub(super) fn done(mut self) {
        self.ends_as = Stage::Done;
    }
}

/// Stands for every [`caller`] that is a task.
const SOME_TASK: usize = 1;

impl Drop for Running<'_> {
    /// `Running -> Done | Poisoned`
    fn drop(&mut self) {
        let mut inner = self.once.inner.lock();
        inner.stage = self.ends_as;
        if self.ends_as == Stage::Done {
            // Release pairs with the Acquire in `is_completed`.
            self.once.done.store(true, Release);
        }
        let all = inner.queue.pop_all();
        drop(inner);
        drop(all);
    }
}

/// Returns a number that no other caller has at the same time: the address of the fibre's
/// record, or of a variable of the kernel thread.
fn caller() -> usize {
    with_stackful(|fibre| fibre.map_or_else(kernel_thread, |fibre| std::ptr::from_ref(fibre).addr()))
}

#[inline(never)]
fn kernel_thread() -> usize {
    of_thread!(static OWN: u8 = 0);
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

impl OnceState {
    /// Returns whether the closure that was called before this one has panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.is_poisoned()).finish()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        let (stage, waiters) = (inner.stage, inner.queue.len());
        drop(inner);
        let stage = match stage {
            Stage::Untouched => "untouched",
            Stage::Poisoned => "poisoned",
            Stage::Running(_) => "running",
            Stage::Done => "done",
        };
        f.debug_struct("Once").field("stage", &format_args!("{stage}")).field("waiters", &waiters).finish()
    }
}
