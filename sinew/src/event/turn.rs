//! Closures that run in their turn of a colour while their caller waits.
#![allow(unsafe_code)]

use super::errors::NoTurn;
use crate::mailbox::Mailbox;
use crate::wait::{self, Party};
use crate::wait::{Reason, Why};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The closure, later its result. The caller and the event share it, and it lies in the caller's frame.
struct Shared<F, R> {
    /// Owner: the event, from the post on; then the caller, when it has been signalled.
    stage: UnsafeCell<Stage<F, R>>,
}

enum Stage<F, R> {
    Closure(F),
    Result(thread::Result<R>),
    Empty,
}

/// The event's side.
struct Event<F, R> {
    shared: *const Shared<F, R>,
    caller: Party,
}

// SAFETY: the closure and the result may go to another thread, and nothing else is reached by this.
unsafe impl<F: Send, R: Send> Send for Event<F, R> {}

impl<F: FnOnce() -> R, R> Event<F, R> {
    fn run(self) {
        // SAFETY: the caller's frame stays until the signal below, and the stage is the event's.
        let stage = unsafe { (*self.shared).stage.get() };
        // SAFETY: as above.
        if let Stage::Closure(f) = unsafe { stage.replace(Stage::Empty) } {
            let result = catch_unwind(AssertUnwindSafe(f));
            // SAFETY: as above.
            unsafe { stage.write(Stage::Result(result)) };
        }
        Party::signal_owed(self.caller.owed());
    }
}

/// Runs `f` as an event of `mailbox`, and waits for it. Calls `posted` when it has been posted or refused.
pub(super) fn run<F, R>(mailbox: &Mailbox, f: F, posted: impl FnOnce()) -> Result<R, NoTurn>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    wait::refuse_tasks();
    let shared = Shared { stage: UnsafeCell::new(Stage::Closure(f)) };
    let mut refused = None;
    wait::block(Why::at(Reason::Turn, mailbox), |caller| {
        let event = Event { shared: &raw const shared, caller };
        // SAFETY: the meter is the mailbox's. The caller's frame stays until the event has signalled it, or until
        // the event has been given back.
        let result = unsafe { mailbox.post(mailbox.meter(), 1, move || event.run()) };
        posted();
        refused = result.err().map(|(refused, _)| NoTurn::from(refused));
        refused.is_none()
    });
    match (refused, shared.stage.into_inner()) {
        (Some(refused), _) => Err(refused),
        (None, Stage::Result(Ok(result))) => Ok(result),
        (None, Stage::Result(Err(payload))) => resume_unwind(payload),
        (None, _) => crate::base::fatal("a turn was signalled that had not run"),
    }
}
