//! `Drain`: the end of a runtime against strands that are spawned and strands that finish.

use crate::base::models::{Watched, check};
use crate::processor::drain::{Drain, Tally, Way};
use crate::strand::Owed;
use crate::wait::{self, Party};
use loom::sync::Arc;
use loom::thread;

/// A runtime with two processors, each of which has memory that is freed at the end.
struct Runtime {
    drain: Drain,
    tallies: [Tally; 2],
    memory: [Watched<u32>; 2],
}

impl Runtime {
    fn new() -> Arc<Runtime> {
        Arc::new(Runtime {
            drain: Drain::new(),
            tallies: [Tally::new(), Tally::new()],
            memory: [Watched::new(0), Watched::new(0)],
        })
    }

    /// Asks for a strand from outside of the runtime. Returns whether it may be spawned.
    fn let_in(&self) -> bool {
        match self.drain.let_in() {
            Way::Open => true,
            Way::Closed(drainer) => {
                signal(drainer);
                false
            }
        }
    }

    /// Counts a strand that a strand on this processor spawns.
    fn spawn(&self, processor: usize) {
        self.tallies[processor].count_spawned();
    }

    /// Runs a strand on this processor to its end.
    fn run(&self, processor: usize) {
        self.memory[processor].change(|value| *value += 1);
        self.tallies[processor].count_finished();
        signal(self.drain.one_finished());
    }

    /// Ends the runtime and frees its memory: a strand that runs meanwhile, or later, fails the
    /// model. Returns the number of strands that have run.
    fn end(&self) -> u32 {
        self.drain.close();
        let is_over = || self.drain.live(self.tallies.iter()) == 0;
        self.drain.wait(is_over, |enter| wait::block(wait::Why::SLEEP, |party| enter(party.number())));
        self.memory.iter().map(|memory| memory.change(|value| std::mem::replace(value, 100))).sum()
    }
}

fn signal(party: Option<Owed>) {
    party.into_iter().for_each(Party::signal_owed);
}

#[test]
fn the_end_waits_for_the_last_of_two_strands() {
    check(3, 2, |turn| {
        let runtime = Runtime::new();
        assert!(runtime.let_in() && runtime.let_in());
        let [one, two, drainer] = [0; 3].map(|_| Arc::clone(&runtime));
        let strand = |runtime: Arc<Runtime>, processor| move || (runtime.run(processor), 0).1;
        let run = turn.all([Box::new(strand(one, 0)), Box::new(strand(two, 1)), Box::new(move || drainer.end())])[2];
        assert_eq!(run, 2);
    });
}

#[test]
fn a_strand_that_a_strand_spawns_is_waited_for_though_it_finishes_elsewhere() {
    check(2, 3, |turn| {
        let runtime = Runtime::new();
        assert!(runtime.let_in());
        let (parent, drainer) = (Arc::clone(&runtime), Arc::clone(&runtime));
        let spawn = move || {
            parent.spawn(0);
            let elsewhere = Arc::clone(&parent);
            let child = thread::spawn(move || elsewhere.run(1));
            parent.run(0);
            child.join().unwrap();
        };
        let ((), run) = turn.two(spawn, move || drainer.end());
        assert_eq!(run, 2);
    });
}

#[test]
fn a_strand_from_outside_is_waited_for_or_refused() {
    check(2, 5, |turn| {
        let runtime = Runtime::new();
        let (outside, drainer) = (Arc::clone(&runtime), Arc::clone(&runtime));
        let come = move || {
            let let_in = outside.let_in();
            if let_in {
                outside.run(0);
            }
            let_in
        };
        let (let_in, run) = turn.two(come, move || drainer.end());
        assert_eq!(run, u32::from(let_in));
    });
}

#[test]
fn a_strand_that_is_refused_does_not_hold_up_the_end() {
    check(3, 2, |turn| {
        let runtime = Runtime::new();
        assert!(runtime.let_in());
        let [outside, strand, drainer] = [0; 3].map(|_| Arc::clone(&runtime));
        let come = move || {
            let let_in = outside.let_in();
            if let_in {
                outside.run(1);
            }
            u32::from(let_in)
        };
        let strand = move || (strand.run(0), 1).1;
        let [come, strand, run] = turn.all([Box::new(come), Box::new(strand), Box::new(move || drainer.end())]);
        assert_eq!(run, come + strand);
        assert!(!runtime.let_in(), "it has ended");
    });
}
