//! Context that follows the fibre: what a library keeps in a kernel thread on behalf of the fibre that
//! runs there.
//!
//! Many libraries keep *the current request*, *the current span* or *the current transaction* in a
//! `thread_local!`. On Sinew a kernel thread runs many fibres in turn, so each of them would see what
//! another fibre has put there. There are two remedies:
//!
//! - If the library is yours, declare the variable by [`fibre_local!`](crate::fibre_local): each fibre
//!   has its own.
//! - If the variable has to stay a `thread_local!`, attach a [`Context`] to the fibre. The runtime calls
//!   it when it suspends that fibre and when it resumes it.
//!
//! ```
//! use sinew::context::{self, Context};
//! use std::cell::Cell;
//! use std::rc::Rc;
//!
//! // What a library has that knows threads only.
//! thread_local!(static REQUEST: Cell<u32> = const { Cell::new(0) });
//!
//! /// The request of one fibre, while the fibre is suspended.
//! struct Request(Cell<u32>);
//!
//! impl Context for Request {
//!     fn suspend(&self) {
//!         self.0.set(REQUEST.replace(0));
//!     }
//!     fn resume(&self) {
//!         REQUEST.set(self.0.get());
//!     }
//! }
//!
//! sinew::Runtime::builder().processors(1).run(|| {
//!     let session = |request| move || {
//!         let _attached = context::attach(Rc::new(Request(Cell::new(0))));
//!         REQUEST.set(request);
//!         sinew::yield_now(); // The other session runs on the same kernel thread.
//!         assert_eq!(REQUEST.get(), request);
//!         REQUEST.set(0);
//!     };
//!     let sessions = [sinew::spawn(session(1)), sinew::spawn(session(2))];
//!     sessions.into_iter().for_each(|session| session.join().unwrap());
//! });
//! ```
//!
//! The crate `sinew-tracing` does this for the spans of `tracing`.
//!
//! # What it costs
//!
//! A fibre without a context pays two instructions for each switch. A fibre that has one pays its two
//! calls, and two returns that the CPU predicts wrongly, about 7 ns each.
//!
//! # Tasks
//!
//! A task has no stack, so between two polls nothing of it is on a kernel thread. A future that enters a
//! context when it is polled and leaves it at the end of the poll, such as `tracing`'s `Instrumented`,
//! is right as it is.

use super::with_record;
use crate::wait::Switches;
use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};

/// What belongs to a fibre, but is kept in the kernel thread while the fibre runs: see the
/// [module](self).
///
/// Both functions are called by the fibre itself, on its stack. They must not block or yield, must not
/// panic, and must not attach or detach a context: the process ends with a message otherwise. Locks of
/// std are fine if they are held for moments only.
pub trait Context: 'static {
    /// Takes the context off the kernel thread. The fibre is about to be suspended.
    fn suspend(&self);

    /// Puts the context onto the kernel thread. The fibre goes on, maybe on another kernel thread.
    fn resume(&self);
}

/// Attaches a context to the calling fibre until the result is dropped, or until the fibre ends.
///
/// At a switch the contexts of a fibre are suspended in the reverse order of their attachment, and
/// resumed in that order. `attach` itself calls neither function, nor does the drop of its result. On
/// a kernel thread that runs no fibre, `attach` has no effect: that thread has no switches.
pub fn attach(context: Rc<dyn Context>) -> Attached {
    refuse_callbacks();
    let attached = Attached { context: Rc::downgrade(&context) };
    with_record(|record| {
        if let Some(record) = record
            && record.locals().attach(context)
        {
            record.head().watch_switches(&SWITCHES, true);
        }
    });
    attached
}

/// Keeps a context attached to its fibre: see [`attach`].
#[must_use = "the context is detached when this is dropped"]
pub struct Attached {
    /// Weak, so that a context may own its attachment.
    context: Weak<dyn Context>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        refuse_callbacks();
        // Outside of the record: the drop of a context is code of others.
        let _context = with_record(|record| {
            let record = record?;
            let (context, is_last) = record.locals().detach(&self.context);
            if is_last {
                record.head().watch_switches(&SWITCHES, false);
            }
            context
        });
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}

static SWITCHES: Switches = Switches { before: suspend_all, after: resume_all };

thread_local!(
    /// Whether the fibre that runs on this kernel thread is calling its contexts.
    static CALLING: Cell<bool> = const { Cell::new(false) }
);

/// Ends the process if a context of the caller is being called. Never inlined, as `call`.
#[inline(never)]
fn refuse_callbacks() {
    if CALLING.get() {
        crate::base::fatal("a context attached or detached another one while it was called");
    }
}

fn suspend_all() {
    call(|contexts| contexts.iter().rev().for_each(|context| context.suspend()));
}

fn resume_all() {
    call(|contexts| contexts.iter().for_each(|context| context.resume()));
}

/// Calls `f` with the contexts of the calling fibre. Never inlined: the fibre may be on another kernel
/// thread at the next call.
#[inline(never)]
fn call(f: impl FnOnce(&[Rc<dyn Context>])) {
    struct Unwound;
    impl Drop for Unwound {
        fn drop(&mut self) {
            crate::base::fatal("a context panicked while its fibre was suspended or resumed");
        }
    }
    if CALLING.replace(true) {
        crate::base::fatal("a context blocked the fibre that was being suspended or resumed");
    }
    let contexts = with_record(|record| record.map(|record| record.locals().take_contexts())).unwrap_or_default();
    let unwound = Unwound;
    f(&contexts);
    std::mem::forget(unwound);
    with_record(|record| {
        if let Some(record) = record {
            record.locals().put_contexts(contexts);
        }
    });
    CALLING.set(false);
}
