//! Models of the lock-free protocols, which loom runs through their
//! interleavings and the values that relaxed loads may see. One command:
//!
//! ```text
//! RUSTFLAGS="--cfg sinew_loom" cargo test -p sinew --release --test loom
//! ```
//!
//! `mutate.py` beside this file weakens the orderings of the protocols one at a time,
//! and expects one of these models to fail each time.
//!
//! A thread that waits for something that never comes shows as "exceeded
//! maximum number of branches". So do two threads that spin while a third one is
//! held up, for they may take turns without end: a model has one that spins.
#![cfg(sinew_loom)]

mod block_on;
mod channel;
mod cluster;
mod dispatch;
mod drain;
mod enrolled;
mod handover;
mod headcount;
mod idle;
mod inbox;
mod inverted;
mod join;
mod mutex;
mod once;
mod polling;
mod pool;
mod queues;
mod rwlock;
mod semaphore;
mod sentinel;
mod slots;
mod spin;
mod state;
mod task;
mod wait;
mod wait_group;
mod watched;

use loom::thread;
use watched::Watched;

/// Which thread of a model runs first.
///
/// loom begins with one interleaving and finds the others from the accesses in
/// it that conflict. It remembers only the last access to each place, so that a
/// load by the first thread is forgotten when the second loads and then
/// exchanges. Hence each thread gets to be first.
#[derive(Clone, Copy)]
struct Turn(usize);

impl Turn {
    /// Runs two threads; gives what they return.
    fn two<A: 'static, B: 'static>(self, a: impl FnOnce() -> A + 'static, b: impl FnOnce() -> B + 'static) -> (A, B) {
        let (a, b) = if self.0.is_multiple_of(2) {
            let a = thread::spawn(a);
            (a, thread::spawn(b))
        } else {
            let b = thread::spawn(b);
            (thread::spawn(a), b)
        };
        (a.join().unwrap(), b.join().unwrap())
    }

    /// Runs threads that return the same.
    fn all<T: 'static, const N: usize>(self, threads: [Box<dyn FnOnce() -> T>; N]) -> [T; N] {
        let mut waiting = threads.map(Some);
        let mut running = [const { None }; N];
        for number in (0..N).map(|number| (number + self.0) % N) {
            running[number] = waiting[number].take().map(thread::spawn);
        }
        running.map(|thread| thread.unwrap().join().unwrap())
    }
}

/// Checks `model` with at most `preemptions` of a thread that could go on, or
/// as many as `LOOM_MAX_PREEMPTIONS` says, with each of its `threads` first.
fn check(threads: usize, preemptions: usize, model: impl Fn(Turn) + Clone + Sync + Send + 'static) {
    for turn in (0..threads).map(Turn) {
        let model = model.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(preemptions);
        builder.check(move || model(turn));
    }
}
