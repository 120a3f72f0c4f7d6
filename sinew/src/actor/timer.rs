//! Messages that are sent later, or again and again.
//!
//! A timer holds its actor weakly, and the actor's annex holds the timer. So timers end with their actor, and neither keeps
//! the runtime.

use super::address::{Address, WeakAddress};
use super::annex::add;
use super::cell::Cell;
use super::traits::Handle;
use crate::base::Deadline;
use crate::mailbox::{Content, Mailbox};
use crate::time;
use crate::wait::Alarm;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// Longer than any program runs.
const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// A message that will be sent. Dropping this does not cancel it.
#[derive(Clone)]
pub struct Timer {
    ticking: Arc<dyn Ticking>,
}

impl Timer {
    /// Cancels the timer. When the caller is a handler of the timer's actor, no message of it comes after that.
    pub fn cancel(&self) {
        self.ticking.cancel();
    }

    /// Returns whether no more messages will be sent.
    pub fn is_over(&self) -> bool {
        self.ticking.is_over()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("is_over", &self.is_over()).finish()
    }
}

/// A timer, whatever its message is.
pub(super) trait Ticking: Send + Sync {
    fn cancel(&self);
    fn is_over(&self) -> bool;
    /// Says whether the actor has set it itself. Then it ends with a restart.
    fn is_own(&self) -> bool;
}

/// The side that sets a timer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    ItsActor,
    Another,
}

/// A timer of an actor.
struct Clock<A, M> {
    alarm: Alarm,
    actor: WeakAddress<A>,
    /// The message, until it has been sent for the last time.
    message: Mutex<Option<M>>,
    /// How the message is sent again.
    again: Option<Again<M>>,
    is_over: AtomicBool,
    by: By,
}

struct Again<M> {
    period: Duration,
    clone: fn(&M) -> M,
    due: Mutex<Instant>,
}

impl<A, M: Send> Ticking for Clock<A, M> {
    fn cancel(&self) {
        self.is_over.store(true, Relaxed);
        self.alarm.clear();
        // Dropped outside of the lock: it is the program's.
        let message = self.message.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(message);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn is_own(&self) -> bool {
        self.by == By::ItsActor
    }
}

impl<A: Handle<M>, M: Send + 'static> Wake for Clock<A, M> {
    fn wake(self: Arc<Self>) {
        self.alarm.clear();
        if let Some(actor) = self.actor.upgrade() {
            // A refused letter is that of an actor that has ended.
            drop(Cell::post(actor.handle(), Tick(self)));
        }
    }
}

/// The letter of a timer whose time has come.
struct Tick<A, M>(Arc<Clock<A, M>>);

impl<A: Handle<M>, M: Send + 'static> Content for Tick<A, M> {
    fn run(self, mailbox: &Mailbox) {
        let clock = self.0;
        if clock.is_over() {
            return;
        }
        let mut place = clock.message.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match &clock.again {
            None => place.take(),
            Some(again) => place.as_ref().map(again.clone),
        };
        drop(place);
        if clock.again.is_none() {
            clock.is_over.store(true, Relaxed);
        }
        // Also if the handler panics.
        let _next = Next(&clock);
        message.into_iter().for_each(|message| {
            Cell::<A>::with(mailbox, |actor, cx| drop(actor.handle(message, cx)));
        });
    }
}

/// Sets a clock that ticks again for its next time, when it is dropped.
struct Next<'a, A: Handle<M>, M: Send + 'static>(&'a Arc<Clock<A, M>>);

impl<A: Handle<M>, M: Send + 'static> Drop for Next<'_, A, M> {
    fn drop(&mut self) {
        let clock = self.0;
        let Some(again) = &clock.again else { return };
        if clock.is_over() {
            return;
        }
        let mut due = again.due.lock().unwrap_or_else(PoisonError::into_inner);
        let late = time::now().saturating_duration_since(*due);
        let missed = u32::try_from(late.as_nanos() / again.period.as_nanos()).unwrap_or(u32::MAX - 1);
        *due = due.checked_add(again.period.saturating_mul(missed + 1)).unwrap_or(*due + AGES);
        clock.alarm.set(Deadline::at(*due), Waker::from(Arc::clone(clock)));
        // If it was cancelled meanwhile, that found no alarm to clear.
        if clock.is_over() {
            clock.alarm.clear();
        }
    }
}

pub(super) fn after<A: Handle<M>, M: Send + 'static>(actor: &Address<A>, by: By, delay: Duration, message: M) -> Timer {
    begin(actor, by, Deadline::after(delay), message, None)
}

#[track_caller]
pub(super) fn every<A: Handle<M>, M: Clone + Send + 'static>(
    actor: &Address<A>,
    period: Duration,
    message: M,
) -> Timer {
    assert!(!period.is_zero(), "the period of a timer must not be zero");
    // A time beyond the range of the clock never comes.
    let due = time::now().checked_add(period).unwrap_or_else(|| time::now() + AGES);
    let again = Again { period, clone: M::clone, due: Mutex::new(due) };
    begin(actor, By::ItsActor, Deadline::at(due), message, Some(again))
}

fn begin<A: Handle<M>, M: Send + 'static>(
    actor: &Address<A>,
    by: By,
    deadline: Deadline,
    message: M,
    again: Option<Again<M>>,
) -> Timer {
    let clock = Arc::new(Clock {
        alarm: Alarm::new(actor.handle().mailbox().cluster()),
        actor: actor.downgrade(),
        message: Mutex::new(Some(message)),
        again,
        is_over: AtomicBool::new(false),
        by,
    });
    clock.alarm.set(deadline, Waker::from(Arc::clone(&clock)));
    let ticking: Arc<dyn Ticking> = clock;
    actor.untyped().enter(|shared| add(&mut shared.timers, Arc::clone(&ticking), |timer| timer.is_over()));
    Timer { ticking }
}
