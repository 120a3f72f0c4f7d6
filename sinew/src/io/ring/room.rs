//! Room in a ring: the number of completions that may be outstanding.
//!
//! A caller takes room before it submits, and a reaper gives it back when completions have come. So the
//! kernel's queues are never full. Callers that find too little room wait, first come, first served: no
//! newcomer passes them, and a caller that wants more holds up those behind it.

use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::{self, End, Limit, Outcome, Queue, Signalled, wait_in, wait_in_async};
use crate::wait::{Reason, Why};

pub(crate) struct Room {
    state: SpinLock<State>,
    total: usize,
}

struct State {
    free: usize,
    /// Whether the ring has ended.
    closed: bool,
    /// The callers that wait. A note is what its caller wants, and 0 if the ring has ended meanwhile.
    waiting: Queue<usize>,
}

/// The end of an attempt to take room.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The caller has it.
    Yes,
    /// The ring has ended.
    Closed,
    /// The caller's limit has ended the wait.
    Not(Outcome),
}

/// Room that was taken and is not used yet. It is given back if this is dropped.
pub(crate) struct Reserved<'a> {
    room: &'a Room,
    count: usize,
}

impl<'a> Reserved<'a> {
    /// Wraps room that the caller has taken.
    pub(crate) fn new(room: &'a Room, count: usize) -> Reserved<'a> {
        Reserved { room, count }
    }

    /// Leaves the room to operations that have departed. Their completions give it back.
    pub(crate) fn used(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.room.give(self.count);
    }
}

/// What a caller finds before it waits.
enum Found<'a> {
    Taken(Taken),
    /// Too little: the caller may enter the queue.
    Queue(SpinGuard<'a, State>),
}

impl Room {
    pub(crate) fn new(total: usize) -> Room {
        Room { state: SpinLock::new(State { free: total, closed: false, waiting: Queue::new() }), total }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Takes `count` at once, if it is there and nobody waits.
    fn take_or_lock(&self, count: usize) -> Found<'_> {
        let mut state = self.state.lock();
        if state.closed {
            return Found::Taken(Taken::Closed);
        }
        if !state.waiting.is_empty() || state.free < count {
            return Found::Queue(state);
        }
        state.free -= count;
        Found::Taken(Taken::Yes)
    }

    /// Takes `count`, and waits for it within `limit`. It is at most the total.
    pub(crate) fn take(&self, count: usize, limit: Limit) -> Taken {
        wait::refuse_tasks();
        let guard = match self.take_or_lock(count) {
            Found::Taken(taken) => return taken,
            Found::Queue(guard) => guard,
        };
        match wait_in(
            &self.state,
            guard,
            |state| &mut state.waiting,
            End::Back.of(Why::at(Reason::Room, self)),
            count,
            limit,
            || (),
        ) {
            (Outcome::Told, 0) => Taken::Closed,
            (Outcome::Told, _) => Taken::Yes,
            (outcome, _) => {
                // What was too little for this caller may be enough for those behind it.
                self.give(0);
                Taken::Not(outcome)
            }
        }
    }

    /// As [`take`](Room::take), for a task. A future that is dropped has taken nothing.
    pub(crate) async fn take_async(&self, count: usize) -> Taken {
        let guard = match self.take_or_lock(count) {
            Found::Taken(taken) => return taken,
            Found::Queue(guard) => guard,
        };
        let abandoned = |is_told: bool, count: usize| self.give(if is_told { count } else { 0 });
        let waits = wait_in_async(
            &self.state,
            guard,
            |state| &mut state.waiting,
            End::Back.of(Why::at(Reason::Room, self)),
            count,
            || (),
            abandoned,
        );
        if waits.await == 0 { Taken::Closed } else { Taken::Yes }
    }

    /// Gives back `count`. The first callers that wait get what they want.
    pub(crate) fn give(&self, count: usize) {
        let mut signalled = Signalled::new();
        self.give_for(count, &mut signalled);
        signalled.go_on();
    }

    /// As [`give`](Room::give), but collects the callers in `signalled`, which lets them go on later.
    pub(crate) fn give_for(&self, count: usize, signalled: &mut Signalled) {
        let mut state = self.state.lock();
        state.free += count;
        loop {
            let State { free, waiting, .. } = &mut *state;
            let Some(mut told) = waiting.pop_if(|wanted| *wanted <= *free) else { return };
            *free -= *told.note();
            drop(state);
            signalled.add(told.signal_later());
            state = self.state.lock();
        }
    }

    /// Ends the ring: no caller gets room any more.
    pub(crate) fn close(&self) {
        loop {
            let mut state = self.state.lock();
            state.closed = true;
            let told = state.waiting.pop_some(|wanted| {
                *wanted = 0;
                true
            });
            drop(state);
            if told.is_empty() {
                return;
            }
        }
    }

    /// Returns whether nothing is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().free == self.total
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_newcomer_does_not_pass_those_that_wait() {
        let room = Room::new(4);
        let context = &mut Context::from_waker(Waker::noop());
        assert_eq!(pin!(room.take_async(2)).poll(context), Poll::Ready(Taken::Yes));
        let mut all = Box::pin(room.take_async(4));
        assert!(all.as_mut().poll(context).is_pending());
        // There would be room for it.
        let mut newcomer = pin!(room.take_async(2));
        assert!(newcomer.as_mut().poll(context).is_pending());
        // The one ahead gives up.
        drop(all);
        assert_eq!(newcomer.poll(context), Poll::Ready(Taken::Yes));
        room.give(4);
        assert!(room.is_empty());
    }
}
