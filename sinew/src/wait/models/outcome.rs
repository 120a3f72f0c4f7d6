//! A wait has one outcome and one signal, and no thread uses it when it is over.

use super::waiting::{Line, Waiting, cancel};
use crate::base::models::{Watched, check};
use crate::base::spin::SpinLock;
use crate::strand::join::{self, Completed, Join};
use crate::wait::{Cancel, Outcome, Party};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;

type Note = Watched<u32>;

/// A fibre, and what it waits for.
struct Fibre {
    cancel: Cancel,
    /// The wait that the one timer of its cluster ends.
    alarm: SpinLock<Option<Waiting<Note>>>,
    line: Line<Note>,
}

impl Fibre {
    fn new<const N: usize>() -> [Arc<Fibre>; N] {
        let fibre = Fibre { cancel: Cancel::new(), alarm: SpinLock::new(None), line: Line::new() };
        let fibre = Arc::new(fibre);
        [(); N].map(|()| Arc::clone(&fibre))
    }

    /// Enters the line and sets an alarm.
    fn enter(&self) -> Waiting<Note> {
        let waiting = new();
        waiting.enter(&self.line);
        *self.alarm.lock() = Some(waiting);
        waiting
    }

    /// Waits, as `block_within` does; the wait is gone then.
    fn wait(&self, waiting: Waiting<Note>) -> Outcome {
        if !(waiting.enter_cancel(&self.cancel) && waiting.settle(Outcome::Cancelled)) {
            waiting.wait();
        }
        *self.alarm.lock() = None;
        self.cancel.leave();
        self.leave(waiting)
    }

    fn leave(&self, waiting: Waiting<Note>) -> Outcome {
        let outcome = waiting.outcome();
        if outcome != Outcome::Told {
            waiting.leave(&self.line);
        }
        let note = waiting.end();
        assert_eq!(note.get(), if outcome == Outcome::Told { 7 } else { 0 }, "{outcome:?}");
        outcome
    }

    /// Tells the first of the line. Returns whether that ended a wait.
    fn tell(&self) -> bool {
        self.line.tell(|note| note.set(7))
    }

    /// Fires the timer. Returns whether that ended a wait. The wait is there while the lock is
    /// held: a wait that is left takes back its alarm.
    fn fire(&self) -> bool {
        let mut alarm = self.alarm.lock();
        alarm.take().is_some_and(|waiting| waiting.settle_and_signal(Outcome::TimedOut))
    }
}

fn new() -> Waiting<Note> {
    Waiting::new(Watched::new(0))
}

#[test]
fn a_request_ends_the_wait_that_it_comes_before_or_within() {
    check(2, 3, |turn| {
        let [fibre, other] = Fibre::new();
        let wait = move || fibre.wait(new());
        let (outcome, _) = turn.two(wait, move || cancel(&other.cancel));
        assert_eq!(outcome, Outcome::Cancelled);
    });
}

#[test]
fn an_interrupt_ends_the_wait_that_it_comes_before_or_within_until_it_is_taken_back() {
    check(2, 3, |turn| {
        let [fibre, other] = Fibre::new();
        let again = Arc::clone(&fibre);
        let wait = move || fibre.wait(new());
        let (outcome, ()) = turn.two(wait, move || other.cancel.interrupt());
        assert_eq!(outcome, Outcome::Cancelled);
        again.cancel.end_interrupt();
        assert!(!again.cancel.is_requested());
    });
}

#[test]
fn two_cancellers_end_a_wait_once() {
    check(3, 2, |turn| {
        let [fibre, one, two] = Fibre::new();
        let wait = move || fibre.wait(new()) == Outcome::Cancelled;
        let first = move || cancel(&one.cancel);
        let second = move || {
            Cancel::cancel_all([&two.cancel].into_iter());
            false
        };
        let [is_cancelled, _, _] = turn.all([Box::new(wait), Box::new(first), Box::new(second)]);
        assert!(is_cancelled);
    });
}

#[test]
fn no_thread_uses_a_wait_that_has_been_left() {
    check(2, 3, |turn| {
        let [fibre, other] = Fibre::new();
        let wait = move || {
            let waiting = new();
            let _ = waiting.enter_cancel(&fibre.cancel);
            // Its time is up, unless the request is faster.
            if !waiting.settle(Outcome::TimedOut) {
                waiting.wait();
            }
            fibre.cancel.leave();
            fibre.leave(waiting)
        };
        let (outcome, cancelled) = turn.two(wait, move || cancel(&other.cancel));
        assert_eq!(cancelled, outcome == Outcome::Cancelled);
    });
}

#[test]
fn a_fibre_that_sees_an_interrupt_sees_what_led_to_it() {
    check(2, 4, |turn| {
        let [fibre, other] = Fibre::new();
        let reason = Arc::new(Watched::new(0));
        let its = Arc::clone(&reason);
        let look = move || {
            if fibre.cancel.is_requested() {
                assert_eq!(reason.get(), 7);
            }
        };
        let interrupt = move || {
            its.set(7);
            other.cancel.interrupt();
        };
        turn.two(look, interrupt);
    });
}

#[test]
fn a_fibre_that_sees_a_request_sees_what_led_to_it() {
    check(2, 4, |turn| {
        let [fibre, other] = Fibre::new();
        let reason = Arc::new(Watched::new(0));
        let its = Arc::clone(&reason);
        let look = move || {
            if fibre.cancel.is_requested() {
                assert_eq!(reason.get(), 7);
            }
        };
        let request = move || {
            its.set(7);
            assert!(!cancel(&other.cancel));
        };
        turn.two(look, request);
    });
}

#[test]
fn a_wait_that_is_told_and_cancelled_has_one_outcome() {
    check(3, 2, |turn| {
        let [fibre, teller, canceller] = Fibre::new();
        let waiting = fibre.enter();
        let wait = move || Some(fibre.wait(waiting));
        let tell = move || teller.tell().then_some(Outcome::Told);
        let request = move || cancel(&canceller.cancel).then_some(Outcome::Cancelled);
        let [outcome, told, cancelled] = turn.all([Box::new(wait), Box::new(tell), Box::new(request)]);
        assert!(told.is_none() || cancelled.is_none(), "both ended it");
        // If neither did, the fibre saw the request itself.
        assert_eq!(outcome, told.or(cancelled).or(Some(Outcome::Cancelled)));
    });
}

#[test]
fn a_wait_that_is_told_and_times_out_has_one_outcome() {
    check(3, 2, |turn| {
        let [fibre, teller, timer] = Fibre::new();
        let waiting = fibre.enter();
        let wait = move || Some(fibre.wait(waiting));
        let tell = move || teller.tell().then_some(Outcome::Told);
        let fire = move || timer.fire().then_some(Outcome::TimedOut);
        let [outcome, told, timed_out] = turn.all([Box::new(wait), Box::new(tell), Box::new(fire)]);
        assert!(told.is_none() || timed_out.is_none(), "both ended it");
        assert_eq!(outcome, told.or(timed_out));
    });
}

#[test]
fn a_wait_that_is_told_times_out_and_is_cancelled_has_one_outcome() {
    check(4, 1, |turn| {
        let [fibre, teller, timer, canceller] = Fibre::new();
        let waiting = fibre.enter();
        let wait = move || Some(fibre.wait(waiting));
        let tell = move || teller.tell().then_some(Outcome::Told);
        let fire = move || timer.fire().then_some(Outcome::TimedOut);
        let request = move || cancel(&canceller.cancel).then_some(Outcome::Cancelled);
        let [outcome, told, timed_out, cancelled] =
            turn.all([Box::new(wait), Box::new(tell), Box::new(fire), Box::new(request)]);
        let claims = [told, timed_out, cancelled].into_iter().flatten().collect::<Vec<_>>();
        assert!(claims.len() <= 1, "ended by {claims:?}");
        assert_eq!(outcome, claims.first().copied().or(Some(Outcome::Cancelled)));
    });
}

#[test]
fn when_the_first_gives_up_and_is_not_told_the_second_is_told() {
    check(2, 4, |turn| {
        let [fibre, teller] = Fibre::new();
        let [first, second] = [(); 2].map(|()| new());
        first.enter(&fibre.line);
        second.enter(&fibre.line);
        let give_up = move || {
            if !first.settle(Outcome::TimedOut) {
                first.wait();
            }
            fibre.leave(first)
        };
        let (outcome, told) = turn.two(give_up, move || teller.tell());
        assert!(told, "one of the two waits in each case");
        let second_is_told = !second.is_pending();
        assert_eq!(second_is_told, outcome == Outcome::TimedOut);
        if second_is_told {
            second.wait();
            assert_eq!(second.end().get(), 7);
        }
    });
}

/// A fibre that is joined with a limit.
struct Joined {
    word: AtomicU64,
    alarm: SpinLock<Option<Waiting<Note>>>,
}

impl Joined {
    fn join(&self) -> Join<'_> {
        Join::of(&self.word)
    }

    /// Joins, as `JoinHandle::join_timeout` does. If it is `patient` it goes on waiting when its
    /// time is up. Returns whether it was told.
    fn wait(&self, patient: bool) -> bool {
        let waiting = new();
        if self.join().wait(waiting.number()) == join::Wait::Done {
            return true;
        }
        *self.alarm.lock() = Some(waiting);
        waiting.wait_again();
        *self.alarm.lock() = None;
        let mut told = waiting.outcome() == Outcome::Told;
        if !told && (patient || !self.join().withdraw(waiting.number())) {
            if waiting.await_told() {
                waiting.wait_again();
            }
            told = true;
        }
        let _ = waiting.end();
        told
    }

    fn complete(&self) {
        if let Completed::Wake(number) = self.join().complete() {
            Party::signal_owed(number);
        }
    }

    fn fire(&self) {
        if let Some(waiting) = self.alarm.lock().take() {
            waiting.settle_and_signal(Outcome::TimedOut);
        }
    }
}

#[test]
fn a_join_whose_time_is_up_withdraws_or_is_told() {
    for patient in [false, true] {
        check(3, 2, move |turn| {
            let joined = Arc::new(Joined { word: AtomicU64::new(0), alarm: SpinLock::new(None) });
            let (waits, completes) = (Arc::clone(&joined), Arc::clone(&joined));
            let [told, ..] = turn.all([
                Box::new(move || waits.wait(patient)),
                Box::new(move || {
                    completes.complete();
                    true
                }),
                Box::new(move || {
                    joined.fire();
                    true
                }),
            ]);
            assert!(told || !patient);
        });
    }
}
