//! `drain::Drain`: the end of a runtime against those who come and those who finish.

use crate::{Watched, check};
use loom::sync::Arc;
use loom::thread;
use sinew::protocols::Drain;

/// A runtime with two processors, each of which has memory that is freed at the end.
struct Runtime {
    drain: Drain,
    memory: [Watched<u32>; 2],
}

impl Runtime {
    fn new() -> Arc<Runtime> {
        Arc::new(Runtime { drain: Drain::new(), memory: [Watched::new(0), Watched::new(0)] })
    }

    /// A strand runs on this processor, and finishes there.
    fn run(&self, processor: usize) {
        self.memory[processor].change(|value| *value += 1);
        self.drain.finish(processor);
    }

    /// Ends the runtime and frees its memory: a strand that runs meanwhile, or later, fails the
    /// model. Returns the number of strands that have run.
    fn end(&self) -> u32 {
        self.drain.end();
        self.memory.iter().map(|memory| memory.change(|value| std::mem::replace(value, 100))).sum()
    }
}

#[test]
fn the_end_waits_for_the_last_of_those_that_finish_at_once() {
    check(3, 2, |turn| {
        let runtime = Runtime::new();
        assert!(runtime.drain.let_in() && runtime.drain.let_in());
        let [one, two, drainer] = [0; 3].map(|_| Arc::clone(&runtime));
        let strand = |runtime: Arc<Runtime>, processor| move || (runtime.run(processor), 0).1;
        let run = turn.all([Box::new(strand(one, 0)), Box::new(strand(two, 1)), Box::new(move || drainer.end())])[2];
        assert_eq!(run, 2);
    });
}

#[test]
fn a_strand_that_a_strand_spawns_is_waited_for_wherever_it_finishes() {
    check(2, 3, |turn| {
        let runtime = Runtime::new();
        assert!(runtime.drain.let_in());
        let (parent, drainer) = (Arc::clone(&runtime), Arc::clone(&runtime));
        let spawn = move || {
            parent.drain.spawn(0);
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
fn one_from_outside_is_waited_for_or_refused() {
    check(2, 5, |turn| {
        let runtime = Runtime::new();
        let (outside, drainer) = (Arc::clone(&runtime), Arc::clone(&runtime));
        let come = move || {
            let let_in = outside.drain.let_in();
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
fn one_that_is_refused_does_not_hold_up_the_end() {
    check(3, 2, |turn| {
        let runtime = Runtime::new();
        assert!(runtime.drain.let_in());
        let [outside, strand, drainer] = [0; 3].map(|_| Arc::clone(&runtime));
        let come = move || {
            let let_in = outside.drain.let_in();
            if let_in {
                outside.run(1);
            }
            u32::from(let_in)
        };
        let strand = move || (strand.run(0), 1).1;
        let [come, strand, run] = turn.all([Box::new(come), Box::new(strand), Box::new(move || drainer.end())]);
        assert_eq!(run, come + strand);
        assert!(!runtime.drain.let_in(), "it has ended");
    });
}
