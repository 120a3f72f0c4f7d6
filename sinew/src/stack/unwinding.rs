//! Keeps the panics of fibres apart that share a kernel thread, by dummies and their keeper. The
//! essay of [`stack`](super) has the idea.
#![allow(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The size of a dummy's stack. To raise and catch a panic takes less than a page of it here.
const DUMMY_STACK: usize = 32 * 1024;

/// The largest number of dummies that the keeper begins in advance. If many fibres unwind at once,
/// each would otherwise wait for the keeper to be scheduled: on a machine with 16 runnable threads
/// for 2 CPUs, a thousand fibres took a minute.
const LARGEST_BATCH: usize = 64;

/// The time that the keeper stays when no panic is laid down any more. Unmeasured: it is much longer
/// than it takes to start the keeper.
const KEEPER_LINGERS: Duration = Duration::from_millis(100);

/// Says whether the calling fibre has to [`lay_down`] its panics before it is suspended. Where panics
/// abort, only a hook can run in the midst of one, and no other panic follows.
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
    /// Adds the panics to the count of the caller's kernel thread.
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
    /// The number of panics that are laid down: of dummies that fibres have taken from `dummies`,
    /// less those that fibres have put there. With the number of pending dummies, it is the number
    /// of dummies that the keeper has begun.
    laid_down: usize,
    /// A stack for each panic that is laid down, so that to take it up needs no memory.
    stacks: Vec<DefaultStack>,
    /// The number of fibres that wait for a dummy.
    wanted: usize,
    has_keeper: bool,
}

static POOL: Mutex<Pool> =
    Mutex::new(Pool { dummies: Vec::new(), laid_down: 0, stacks: Vec::new(), wanted: 0, has_keeper: false });
/// Tells the keeper that dummies are wanted, or that no panic is laid down any more.
static KEEPER: Condvar = Condvar::new();
/// Tells the fibres that wait for a dummy that there is one.
static BEGUN: Condvar = Condvar::new();

/// Locks the pool. Threads that lock it have panics in flight, so its poison means nothing.
fn lock() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a dummy. Blocks the kernel thread until the keeper has begun one, if there is none.
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
                    "a fibre blocks while it panics, and the thread that this needs cannot start: {error}"
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

/// Lives the life of the keeper.
fn keep() {
    let mut pool = lock();
    loop {
        if pool.dummies.len() < pool.wanted {
            let more = pool.laid_down.clamp(pool.wanted, LARGEST_BATCH.max(pool.wanted));
            for _ in 0..more {
                let stack = DefaultStack::new(DUMMY_STACK).unwrap_or_else(|error| {
                    crate::base::fatal(&format!(
                        "a fibre blocks while it panics, and there is no memory for the stack that this needs: {error}"
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

// SAFETY: its stack holds a panic without a payload and a reference to the coroutine itself. Neither
// is bound to a kernel thread.
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
