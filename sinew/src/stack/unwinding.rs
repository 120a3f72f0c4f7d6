//! Keeps the panics of fibres apart that share a kernel thread.
//!
//! std counts the panics in flight for each kernel thread. `thread::panicking`, the
//! poisoning of every lock and the check for a panic in a panic hook read that count. A
//! fibre that is suspended while it unwinds would leave its share of the count to the
//! other fibres of its kernel thread. So a fibre takes its share along:
//!
//! 1. A fibre that is suspended while it unwinds lays its panics down: the count of its
//!    kernel thread is 0 afterwards.
//! 2. When it is resumed it takes as many up again.
//!
//! Hence the count is 0 whenever a processor picks a strand, and it is the running
//! strand's own while that runs.
//!
//! # How a count is changed
//!
//! The count is private to std. It grows where a panic begins, and shrinks where one is
//! caught. These may be two kernel threads: a [`Dummy`] is a panic in a coroutine of its
//! own, which is suspended between the two. To begin a dummy adds one to the count of the
//! kernel thread that does it. To end it takes one from the count of the kernel thread
//! that does that.
//!
//! So a fibre that lays down a panic ends a dummy, and one that takes it up begins a dummy.
//! The first dummies are begun by the *keeper*, a kernel thread that is there only while
//! fibres are suspended in this way, and for a moment longer. Nothing depends on the
//! keeper's own count. It is the number of dummies that are pending, plus the number of
//! panics that are laid down. When nothing is laid down, the keeper can therefore end all
//! dummies itself and go. std is spared a check of its thread-local count while no panic
//! is in flight in the whole process, and a dummy is one.
//!
//! A fibre that unwinds stays on its kernel thread. Its frames are std's own while it is in
//! the panic hook, and those may keep the address of the count.
//!
//! # Rejected
//!
//! - *To guess*: to remember at each suspension whether the count was up, and to suspect
//!   those that run on such a kernel thread. It cannot tell a fibre that panics beside one
//!   that is suspended, and it does nothing for std's locks.
//! - *To keep one's own count in the panic hook*: a program may replace the hook, and
//!   `resume_unwind` does not call it.
#![allow(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The stack of a dummy. A panic is raised and caught on less than a page of it here.
const DUMMY_STACK: usize = 32 * 1024;

/// How many dummies the keeper begins at once, at most. Where many fibres unwind at once,
/// each would wait for the keeper to be scheduled otherwise: on a machine with 16 runnable
/// threads for 2 CPUs, a thousand fibres took a minute.
const LARGEST_BATCH: usize = 64;

/// How long the keeper stays when nothing is laid down any more. Unmeasured: it is much
/// longer than it takes to start it.
const KEEPER_LINGERS: Duration = Duration::from_millis(100);

/// Whether the caller, a fibre, may be suspended only by way of [`lay_down`]. Where panics
/// abort, only a hook can run in the midst of one, and there is no other panic to come.
#[inline(always)]
pub(crate) fn is_in_flight() -> bool {
    cfg!(panic = "unwind") && thread::panicking()
}

/// The panics of a fibre while it is suspended.
#[must_use]
pub(crate) struct LaidDown(u32);

/// Takes all panics of the calling fibre from the count of its kernel thread.
pub(crate) fn lay_down() -> LaidDown {
    let mut panics = 0;
    while thread::panicking() {
        let stack = take_dummy().end();
        lock().stacks.push(stack);
        panics += 1;
    }
    LaidDown(panics)
}

impl LaidDown {
    /// Adds them to the count of the caller's kernel thread.
    pub(crate) fn take_up(self) {
        for _ in 0..self.0 {
            let stack = lock().stacks.pop().expect("there is a stack for each panic that is laid down");
            let dummy = Dummy::begin(stack);
            let mut pool = lock();
            pool.dummies.push(dummy);
            pool.laid_down -= 1;
            if pool.laid_down == 0 {
                KEEPER.notify_one();
            }
        }
    }
}

struct Pool {
    /// Dummies that are pending.
    dummies: Vec<Dummy>,
    /// The number of dummies that have been taken from there, less those that have been put
    /// there by fibres. Together with those that are there it is the number of dummies that
    /// the keeper has begun.
    laid_down: usize,
    /// A stack for each panic that is laid down. Whoever takes it up needs no memory.
    stacks: Vec<DefaultStack>,
    /// The number of fibres that wait for a dummy.
    wanted: usize,
    has_keeper: bool,
}

static POOL: Mutex<Pool> =
    Mutex::new(Pool { dummies: Vec::new(), laid_down: 0, stacks: Vec::new(), wanted: 0, has_keeper: false });
/// Tells the keeper that dummies are wanted, or that nothing is laid down any more.
static KEEPER: Condvar = Condvar::new();
/// Tells those who want a dummy that there is one.
static BEGUN: Condvar = Condvar::new();

/// Whoever has it panics, in a sense, so its poison means nothing.
fn lock() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks the kernel thread for as long as it takes to begin a dummy elsewhere.
fn take_dummy() -> Dummy {
    let mut pool = lock();
    pool.wanted += 1;
    let dummy = loop {
        if let Some(dummy) = pool.dummies.pop() {
            break dummy;
        }
        if !pool.has_keeper {
            let keeper = thread::Builder::new().name("sinew-panics".to_owned()).spawn(keep);
            pool.has_keeper = keeper.is_ok();
            if let Err(error) = keeper {
                crate::base::fatal(&format!(
                    "a fibre blocks while it panics, and there is no thread for that: {error}"
                ));
            }
        }
        KEEPER.notify_one();
        pool = BEGUN.wait(pool).unwrap_or_else(PoisonError::into_inner);
    };
    pool.wanted -= 1;
    pool.laid_down += 1;
    dummy
}

/// The life of the keeper.
fn keep() {
    let mut pool = lock();
    loop {
        if pool.dummies.len() < pool.wanted {
            let more = pool.laid_down.clamp(pool.wanted, LARGEST_BATCH.max(pool.wanted));
            for _ in 0..more {
                let stack = DefaultStack::new(DUMMY_STACK).unwrap_or_else(|error| {
                    crate::base::fatal(&format!(
                        "a fibre blocks while it panics, and there is no memory for that: {error}"
                    ))
                });
                pool.dummies.push(Dummy::begin(stack));
            }
            BEGUN.notify_all();
        } else if pool.laid_down > 0 {
            pool = KEEPER.wait(pool).unwrap_or_else(PoisonError::into_inner);
        } else {
            let (woken, timeout) = KEEPER.wait_timeout(pool, KEEPER_LINGERS).unwrap_or_else(PoisonError::into_inner);
            pool = woken;
            if timeout.timed_out() && pool.wanted == 0 && pool.laid_down == 0 {
                break;
            }
        }
    }
    for dummy in std::mem::take(&mut pool.dummies) {
        drop(dummy.end());
    }
    pool.has_keeper = false;
}

/// A panic in flight that means nothing.
struct Dummy(Coroutine<(), (), (), DefaultStack>);

// SAFETY: its stack holds a panic without a payload and a reference to the coroutine
// itself. Nothing of that is bound to a kernel thread.
unsafe impl Send for Dummy {}

impl Dummy {
    /// Adds one to the caller's count of panics.
    fn begin(stack: DefaultStack) -> Dummy {
        struct Suspends<'a>(&'a Yielder<(), ()>);
        impl Drop for Suspends<'_> {
            fn drop(&mut self) {
                self.0.suspend(());
            }
        }
        let mut dummy = Coroutine::with_stack(stack, |yielder, ()| {
            let unwind = || {
                let _suspends = Suspends(yielder);
                resume_unwind(Box::new(()))
            };
            let _ = catch_unwind::<_, ()>(AssertUnwindSafe(unwind));
        });
        dummy.resume(());
        Dummy(dummy)
    }

    /// Takes one from the caller's count of panics. Returns the stack, which is free.
    fn end(mut self) -> DefaultStack {
        self.0.resume(());
        self.0.into_stack()
    }
}
