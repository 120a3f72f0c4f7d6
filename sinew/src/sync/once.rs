//! `Once`, with std's signatures and poisoning.
//!
//! What has happened so far is a [`Stage`] under a spin lock, next to the queue of
//! those who wait for the next one. Beside it is a flag for those who come when all
//! is done: the only thing that they look at.

use crate::base::Deadline;
use crate::base::atomic::{Acquire, AtomicBool, Release, const_fn, of_thread};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::with_stackful;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
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
///         sinew::spawn(|| START.call_once(|| println!("by whoever came first")));
///     }
/// });
/// assert!(START.is_completed());
/// ```
pub struct Once {
    /// Whether the stage is `Done`. Written under the lock, read by anyone.
    done: AtomicBool,
    inner: SpinLock<Inner>,
}

struct Inner {
    stage: Stage,
    /// Those who wait for the stage to change.
    queue: Queue<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Untouched,
    /// The last one that ran panicked.
    Poisoned,
    /// By this [`caller`].
    Running(usize),
    Done,
}

/// What a closure that is called by [`Once::call_once_force`] can find out.
pub struct OnceState {
    poisoned: bool,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

// As std's, it has no `Default`.
#[allow(clippy::new_without_default)]
impl Once {
    const_fn! {
        /// Nothing has been done yet.
        pub fn new() -> Once {
            let inner = Inner { stage: Stage::Untouched, queue: Queue::new() };
            Once { done: AtomicBool::new(false), inner: SpinLock::new(inner) }
        }
    }

    /// Whether a closure has been called and has returned. What it did is seen then.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // Acquire pairs with the Release in `Running::drop`.
        self.done.load(Acquire)
    }

    /// Calls `f`, unless a closure has been called already. When this returns, one
    /// has returned: whoever comes while it runs waits for it.
    ///
    /// # Panics
    /// If `f` panics: then the `Once` is poisoned. If it had been poisoned before. If
    /// the caller is inside of a closure that this same `Once` has called.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call_slow(Poison::Panic, &mut |_| f.take().expect("it is called once")());
        }
    }

    /// As [`call_once`](Once::call_once), but if those that were called before have
    /// panicked it calls `f` all the same.
    ///
    /// # Panics
    /// If `f` panics; if the caller is inside of a closure that this same `Once` has
    /// called.
    #[inline]
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call_slow(Poison::Ignore, &mut |state| f.take().expect("it is called once")(state));
        }
    }

    /// Waits until a closure has been called, by another, and has returned.
    ///
    /// # Panics
    /// If one panics, or had panicked before. If the caller is inside of a closure that
    /// this same `Once` has called.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_within(Poison::Panic, Limit::NONE);
    }

    /// As [`wait`](Once::wait), but goes on waiting if a closure panics.
    ///
    /// # Panics
    /// If the caller is inside of a closure that this same `Once` has called.
    #[track_caller]
    pub fn wait_force(&self) {
        self.wait_within(Poison::Ignore, Limit::NONE);
    }

    /// As [`wait`](Once::wait), but for no longer than `timeout`. Whether a closure has
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

    /// As [`wait`](Once::wait), for tasks.
    ///
    /// # Panics
    /// If a closure panics, or had panicked before.
    pub async fn wait_async(&self) {
        self.wait_for(Poison::Panic).await;
    }

    pub(super) async fn wait_for(&self, poison: Poison) {
        while !self.is_completed() {
            let inner = self.inner.lock();
            match inner.stage {
                Stage::Done => return,
                Stage::Poisoned if poison == Poison::Panic => {
                    drop(inner);
                    panic!("Once instance has previously been poisoned");
                }
                _ => self.change(inner).await,
            }
        }
    }

    /// The right to do it, for a task, when nobody else has it; `None` when it is done.
    pub(super) async fn begin(&self) -> Option<Running<'_>> {
        while !self.is_completed() {
            let mut inner = self.inner.lock();
            match inner.stage {
                Stage::Done => return None,
                Stage::Running(_) => self.change(inner).await,
                Stage::Untouched | Stage::Poisoned => {
                    inner.stage = Stage::Running(SOME_TASK);
                    return Some(Running { once: self, ends_as: Stage::Poisoned });
                }
            }
        }
        None
    }

    /// Until the stage changes.
    fn change<'a>(&'a self, inner: SpinGuard<'a, Inner>) -> impl Future<Output = ()> + use<'a> {
        wait_in_async(&self.inner, inner, |inner| &mut inner.queue, End::Back, (), || (), |_, ()| ())
    }

    #[cold]
    #[track_caller]
    fn call_slow(&self, poison: Poison, f: &mut dyn FnMut(&OnceState)) {
        let caller = caller();
        let poisoned = loop {
            let mut inner = self.inner.lock();
            let poisoned = match inner.stage {
                Stage::Done => return,
                Stage::Untouched => false,
                Stage::Poisoned => true,
                Stage::Running(runner) => {
                    let _ = self.wait_for_change(inner, runner == caller, Limit::NONE);
                    continue;
                }
            };
            if poisoned && poison == Poison::Panic {
                drop(inner);
                panic!("Once instance has previously been poisoned");
            }
            inner.stage = Stage::Running(caller);
            break poisoned;
        };
        let mut running = Running { once: self, ends_as: Stage::Poisoned };
        f(&OnceState { poisoned });
        running.ends_as = Stage::Done;
    }

    /// Whether it is done.
    #[track_caller]
    pub(super) fn wait_within(&self, poison: Poison, limit: Limit) -> bool {
        while !self.is_completed() {
            let inner = self.inner.lock();
            let by_caller = match inner.stage {
                Stage::Done => return true,
                Stage::Poisoned if poison == Poison::Panic => {
                    drop(inner);
                    panic!("Once instance has previously been poisoned");
                }
                Stage::Untouched | Stage::Poisoned => false,
                Stage::Running(runner) => runner == caller(),
            };
            if self.wait_for_change(inner, by_caller, limit) != Outcome::Told {
                return self.is_completed();
            }
        }
        true
    }

    #[track_caller]
    fn wait_for_change(&self, inner: SpinGuard<'_, Inner>, by_caller: bool, limit: Limit) -> Outcome {
        if by_caller {
            drop(inner);
            panic!("a closure waits for the Once that has called it");
        }
        wait_in(&self.inner, inner, |inner| &mut inner.queue, End::Back, (), limit, || ()).0
    }
}

/// What to do about a `Once` that is poisoned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    Panic,
    Ignore,
}

/// A closure that is being called.
pub(super) struct Running<'a> {
    once: &'a Once,
    ends_as: Stage,
}

impl Running<'_> {
    /// It has returned.
    pub(super) fn done(mut self) {
        self.ends_as = Stage::Done;
    }
}

/// In place of a [`caller`] that is a task: it goes by no address.
const SOME_TASK: usize = 1;

impl Drop for Running<'_> {
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

/// A number that nobody else has while the caller is there: the address of the
/// fibre's record, or of something of the kernel thread's own.
fn caller() -> usize {
    with_stackful(|fibre| fibre.map_or_else(kernel_thread, |fibre| std::ptr::from_ref(fibre).addr()))
}

#[inline(never)]
fn kernel_thread() -> usize {
    of_thread!(static OWN: u8 = 0);
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

impl OnceState {
    /// Whether the closure that was called before this one has panicked.
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
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
