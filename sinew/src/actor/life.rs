//! The life of an actor: how it starts, fails, is restarted, and ends. All of this runs on its carrier.

use super::annex::Shared;
use super::cell::Cell;
use super::end::{Down, End, Failure};
use super::overflow::Overflow;
use super::restart::Factory;
use super::traits::Actor;
use super::untyped::Untyped;
use crate::base::atomic::{SeqCst, fence};
use crate::cancel::shield;
use crate::mailbox::{Mailbox, Order, Owned, mark};
use crate::time;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;

/// The permits that senders get who wait for room in an actor that has ended. Each passes its permit on.
const ENDED_ROOM: usize = 1;

/// Does what the marks of the mailbox ask for.
pub(super) fn attend<A: Actor>(owned: &Owned) {
    let mailbox = owned.mailbox();
    loop {
        let marks = mailbox.marks();
        if mailbox.word().has_ended() {
            return mailbox.take_marks(u8::MAX);
        }
        if marks & mark::KILLED != 0 || mailbox.word().is_killed() {
            end::<A>(owned, End::Killed);
        } else if marks & mark::FAILED != 0 {
            mailbox.take_marks(mark::FAILED);
            let failure = shared::<A>(mailbox).failure.take();
            recover::<A>(owned, failure.unwrap_or_else(|| Failure::new("no reason was given")));
        } else if marks & mark::FRESH != 0 {
            mailbox.take_marks(mark::FRESH);
            start::<A>(mailbox);
        } else if marks & mark::ORDERED != 0 {
            mailbox.take_marks(mark::ORDERED);
            let word = mailbox.word();
            if word.is_stopped() || word.is_abandoned() {
                let reason = Cell::<A>::of(mailbox).annex().and_then(|annex| annex.shared().reason.take());
                let usual = if word.is_stopped() { End::Stopped } else { End::Abandoned };
                end::<A>(owned, reason.unwrap_or(usual));
            }
        } else {
            return;
        }
    }
}

/// Notes that a handler has panicked.
pub(super) fn note_panic<A: Actor>(mailbox: &Mailbox, payload: Box<dyn Any + Send>) {
    note_failure::<A>(mailbox, Failure::panicked(&*payload));
    // Dropping the payload might panic again.
    std::mem::forget(payload);
}

/// Notes that the actor has failed. It is dealt with before the next message.
pub(super) fn note_failure<A: Actor>(mailbox: &Mailbox, failure: Failure) {
    shared::<A>(mailbox).failure.get_or_insert(failure);
    mailbox.add_mark(mark::FAILED);
}

fn shared<A: Actor>(mailbox: &Mailbox) -> MutexGuard<'_, Shared> {
    Cell::<A>::of(mailbox).annex_or_new().shared()
}

/// Calls `f`. Returns the failure if it panics.
fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let failure = Failure::panicked(&*payload);
        // Dropping the payload might panic again.
        std::mem::forget(payload);
        failure
    })
}

fn start<A: Actor>(mailbox: &Mailbox) {
    let started = guarded(|| Cell::<A>::with(mailbox, |actor, cx| actor.started(cx)).unwrap_or(Ok(())));
    if let Err(failure) = started.and_then(|result| result) {
        note_failure::<A>(mailbox, failure);
    }
}

/// Restarts the actor, or ends it.
fn recover<A: Actor>(owned: &Owned, failure: Failure) {
    let mailbox = owned.mailbox();
    let now = time::now();
    let wait = shared::<A>(mailbox).supervision.as_mut().and_then(|supervision| supervision.next(now));
    let Some(wait) = wait else { return end::<A>(owned, End::Failed(failure)) };
    part_with::<A>(mailbox, &End::Failed(failure));
    if !wait.is_zero() {
        // A kill ends the wait.
        let _ = time::try_sleep(wait);
        if mailbox.word().is_killed() {
            return;
        }
    }
    let factory = shared::<A>(mailbox).supervision.as_mut().and_then(|supervision| supervision.factory.take());
    let mut factory = factory.and_then(|factory| factory.downcast::<Factory<A>>().ok()).expect("the actor's factory");
    let made = guarded(|| (factory.0)());
    if let Some(supervision) = &mut shared::<A>(mailbox).supervision {
        supervision.factory = Some(factory);
    }
    match made {
        Ok(value) => {
            Cell::<A>::of(mailbox).put_value(value);
            start::<A>(mailbox);
        }
        Err(failure) => note_failure::<A>(mailbox, failure),
    }
}

/// Takes the value out, tells it that it ends, and drops it.
fn part_with<A: Actor>(mailbox: &Mailbox, why: &End) {
    if let Some(mut value) = Cell::<A>::of(mailbox).take_value() {
        // A kill cancels what blocks in a handler, but not here. A panic has been reported by its hook.
        let _ = guarded(|| shield(|| value.stopped(why)));
        let _ = guarded(|| drop(value));
    }
}

/// Ends the actor, and tells everybody.
fn end<A: Actor>(owned: &Owned, why: End) {
    let mailbox = owned.mailbox();
    mailbox.take_marks(u8::MAX);
    owned.discard_letters();
    let overflow = Cell::<A>::of(mailbox).annex().and_then(|annex| annex.overflow.as_ref());
    // Dropping what a program has put into a message may panic.
    let _ = guarded(|| overflow.into_iter().for_each(Overflow::discard));
    part_with::<A>(mailbox, &why);
    if let Some(annex) = Cell::<A>::of(mailbox).annex() {
        annex.shared().end.get_or_insert(why);
    }
    mailbox.word().end();
    // Whoever enters the annex looks at the word after that: see `Untyped::enter`.
    fence(SeqCst);
    if Cell::<A>::of(mailbox).annex().is_some() {
        tell_all(&Untyped::of_owner(mailbox));
    }
}

/// Tells everybody who has entered the annex of an actor that has ended.
pub(super) fn tell_all(actor: &Untyped) {
    let annex = actor.annex_or_new();
    let mut shared = annex.shared();
    let why = shared.end.get_or_insert_with(|| actor.usual_end()).clone();
    let Shared { watchers, children, joiners, timers, supervision, .. } = std::mem::take(&mut *shared);
    shared.end = Some(why.clone());
    drop(shared);
    // The factory is the program's, and its drop may panic.
    let _ = guarded(|| drop(supervision));
    timers.into_iter().for_each(|timer| timer.cancel());
    annex.room.iter().for_each(|room| room.post(ENDED_ROOM));
    for child in children {
        child.annex_or_new().shared().reason.get_or_insert(End::Orphaned);
        child.order(if matches!(why, End::Killed) { Order::Kill } else { Order::Stop });
    }
    let id = actor.id();
    for watcher in watchers {
        if let Some(strand) = watcher.who.upgrade() {
            (watcher.tell)(strand, Down { actor: id.clone(), end: why.clone(), relation: watcher.relation });
        }
    }
    joiners.into_iter().for_each(|joiner| drop(joiner.send(why.clone())));
}
