//! `State`: park and unpark, wait and signal.

use crate::base::models::{Watched, check};
use crate::strand::state::Commit;
use crate::strand::{State, Woken};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use loom::thread;

/// A strand, and its ready queue.
struct Strand {
    state: State,
    /// The number of times that it was made ready and has not run since.
    ready: AtomicU32,
    flags: [AtomicBool; 2],
}

impl Strand {
    fn new() -> Arc<Strand> {
        let flag = || AtomicBool::new(false);
        Arc::new(Strand { state: State::new(), ready: AtomicU32::new(0), flags: [flag(), flag()] })
    }

    /// Sets a flag, then unparks. Returns whether this made the strand ready.
    fn unpark(&self, flag: usize) -> bool {
        self.flags[flag].store(true, Relaxed);
        let enqueue = self.state.unpark() == Woken::Enqueue;
        if enqueue {
            assert_eq!(self.ready.fetch_add(1, Release), 0, "made ready while it was ready");
        }
        enqueue
    }

    /// Parks, as `sinew::park` and the processor do.
    fn park(&self) {
        if self.state.take_token() || self.state.commit_park() == Commit::Woken {
            return;
        }
        self.run_again();
    }

    fn run_again(&self) {
        while self.ready.load(Relaxed) == 0 {
            thread::yield_now();
        }
        assert_eq!(self.ready.fetch_sub(1, Acquire), 1, "made ready twice");
    }

    /// Waits, as the runtime's own waits do.
    fn wait(&self) {
        if self.state.commit_wait() == Commit::Stopped {
            self.run_again();
        }
    }

    fn signal(&self) {
        if self.state.signal() == Woken::Enqueue {
            assert_eq!(self.ready.fetch_add(1, Release), 0, "made ready while it was ready");
        }
    }

    /// Parks until it sees all of these flags.
    fn park_until_set(&self, flags: std::ops::Range<usize>) {
        while !self.flags[flags.clone()].iter().all(|flag| flag.load(Relaxed)) {
            self.park();
        }
    }
}

#[test]
fn a_wake_up_between_the_check_and_the_park_is_not_lost() {
    check(2, 4, |turn| {
        let strand = Strand::new();
        let other = Arc::clone(&strand);
        turn.two(move || strand.park_until_set(0..1), move || other.unpark(0));
    });
}

#[test]
fn both_unparkers_are_heard_even_if_their_tokens_are_one() {
    check(3, 2, |turn| {
        let strand = Strand::new();
        let [one, two] = [0, 1].map(|flag| {
            let strand = Arc::clone(&strand);
            Box::new(move || {
                strand.unpark(flag);
            })
        });
        turn.all([Box::new(move || strand.park_until_set(0..2)), one, two]);
    });
}

#[test]
fn a_parked_strand_is_made_ready_by_exactly_one_of_two_unparkers() {
    check(2, 4, |turn| {
        let strand = Strand::new();
        assert_eq!(strand.state.commit_park(), Commit::Stopped);
        let (one, two) = (Arc::clone(&strand), Arc::clone(&strand));
        let (one, two) = turn.two(move || one.unpark(0), move || two.unpark(1));
        assert!(one != two, "made ready by {}", u32::from(one) + u32::from(two));
        assert!(strand.state.take_token(), "the other unpark is remembered");
        assert!(!strand.state.take_token(), "one token, not two");
    });
}

#[test]
fn a_token_is_taken_once() {
    check(2, 4, |turn| {
        let strand = Strand::new();
        let (taker, unparker) = (Arc::clone(&strand), Arc::clone(&strand));
        let (early, enqueued) = turn.two(move || taker.state.take_token(), move || unparker.unpark(0));
        assert!(!enqueued, "an active strand is not made ready");
        assert!(early != strand.state.take_token());
    });
}

#[test]
fn what_the_second_of_two_unparkers_wrote_is_seen_after_their_one_token() {
    check(2, 4, |turn| {
        let strand = Arc::new((State::new(), Watched::new(0), AtomicBool::new(false)));
        assert_eq!(strand.0.unpark(), Woken::LeaveIt, "the first unparker's token");
        let other = Arc::clone(&strand);
        let second = move || {
            other.1.set(7);
            assert_eq!(other.0.unpark(), Woken::LeaveIt);
            other.2.store(true, Relaxed);
        };
        let park = move || {
            if strand.2.load(Relaxed) {
                assert!(strand.0.take_token());
                assert_eq!(strand.1.get(), 7);
            }
        };
        turn.two(park, second);
    });
}

#[test]
fn what_a_strand_did_before_it_parked_is_seen_by_the_processor_that_runs_it_next() {
    check(2, 4, |turn| {
        let strand = Arc::new((State::new(), Watched::new(0)));
        let other = Arc::clone(&strand);
        let park = move || {
            strand.1.set(1);
            strand.0.commit_park() == Commit::Stopped
        };
        let unpark = move || {
            let ours = other.0.unpark() == Woken::Enqueue;
            if ours {
                // Stack and all.
                other.1.change(|stack| *stack += 1);
            }
            ours
        };
        let (parked, ours) = turn.two(park, unpark);
        assert_eq!(parked, ours, "the strand has one owner");
    });
}

#[test]
fn a_finished_strand_is_never_made_ready() {
    check(2, 4, |turn| {
        let strand = Strand::new();
        let (finisher, unparker) = (Arc::clone(&strand), Arc::clone(&strand));
        let unpark_twice = move || (unparker.unpark(0), unparker.unpark(1));
        let ((), enqueued) = turn.two(move || finisher.state.finish(), unpark_twice);
        assert_eq!(enqueued, (false, false));
        assert!(!strand.unpark(0));
    });
}

#[test]
fn a_token_neither_ends_a_wait_nor_is_used_up_by_it() {
    check(3, 2, |turn| {
        let strand = Strand::new();
        let (signals, unparks) = (Arc::clone(&strand), Arc::clone(&strand));
        let wait = move || {
            strand.wait();
            assert!(strand.flags[1].load(Relaxed), "not before it is signalled");
            strand.park_until_set(0..1);
        };
        let signal = move || {
            signals.flags[1].store(true, Relaxed);
            signals.signal();
        };
        let unpark = move || {
            unparks.unpark(0);
        };
        turn.all([Box::new(wait), Box::new(signal), Box::new(unpark)]);
    });
}

#[test]
fn a_park_with_a_time_limit_leaves_no_signal_behind() {
    check(3, 2, |turn| {
        let strand = Strand::new();
        let (timer, unparks) = (Arc::clone(&strand), Arc::clone(&strand));
        let fired = Arc::new(AtomicBool::new(false));
        let fires = Arc::clone(&fired);
        let park = move || {
            strand.park();
            // A timer that was cancelled is not at work any more.
            while !fired.load(Acquire) {
                thread::yield_now();
            }
            strand.state.take_signal();
            strand.park_until_set(0..1);
            assert!(!strand.state.take_signal());
        };
        let fire = move || {
            timer.signal();
            fires.store(true, Release);
        };
        let unpark = move || {
            unparks.unpark(0);
        };
        turn.all([Box::new(park), Box::new(fire), Box::new(unpark)]);
    });
}
