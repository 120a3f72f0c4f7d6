//! Models, which loom runs through their interleavings and the values that relaxed loads may
//! see. This folder has what all models share, and the models of the base.
//!
//! ```text
//! RUSTFLAGS="--cfg sinew_loom" cargo test -p sinew --release --lib models
//! ```
//!
//! Models lie beside what they model, in a folder `models` whose head says what is modelled and
//! what is abstracted. `sinew/models/mutate.py` weakens the orderings of the protocols one at a
//! time, and expects a model to fail each time.
//!
//! | here | what it is |
//! | --- | --- |
//! | [`check`], [`Turn`] | run a model, with each of its threads first |
//! | [`Watched`] | plain memory that loom watches |
//! | `spin` | models of [`SpinLock`](super::spin::SpinLock) |
//!
//! # What every model abstracts
//!
//! - The atomics are loom's. loom knows no total order of the stores to one place, and treats
//!   SeqCst accesses as AcqRel; SeqCst fences are exact.
//! - The light and the heavy fence are both full fences.
//! - A futex is a loop that yields. A thread that waits for something that never comes shows as
//!   "exceeded maximum number of branches". Two threads that spin while a third one is held up
//!   show the same, because they may take turns without end. So a model has one thread that spins.
//! - There is no time: a limit is never, or has ended before the wait begins.
//! - The number of preemptions is bounded. `LOOM_MAX_PREEMPTIONS` sets another bound.

mod spin;
mod watched;

pub(crate) use watched::Watched;

use loom::thread;

/// The thread of a model that runs first.
///
/// loom begins with one interleaving and finds the others from the accesses in
/// it that conflict. It remembers only the last access to each place, so that a
/// load by the first thread is forgotten when the second loads and then
/// exchanges. Hence each thread gets to be first.
#[derive(Clone, Copy)]
pub(crate) struct Turn(usize);

impl Turn {
    /// Runs two threads. Returns their results.
    pub(crate) fn two<A: 'static, B: 'static>(
        self,
        a: impl FnOnce() -> A + 'static,
        b: impl FnOnce() -> B + 'static,
    ) -> (A, B) {
        let (a, b) = if self.0.is_multiple_of(2) {
            let a = thread::spawn(a);
            (a, thread::spawn(b))
        } else {
            let b = thread::spawn(b);
            (thread::spawn(a), b)
        };
        (a.join().unwrap(), b.join().unwrap())
    }

    /// Runs threads that have the same type of result. Returns their results.
    pub(crate) fn all<T: 'static, const N: usize>(self, threads: [Box<dyn FnOnce() -> T>; N]) -> [T; N] {
        let mut waiting = threads.map(Some);
        let mut running = [const { None }; N];
        for number in (0..N).map(|number| (number + self.0) % N) {
            running[number] = waiting[number].take().map(thread::spawn);
        }
        running.map(|thread| thread.unwrap().join().unwrap())
    }
}

/// Checks `model` once with each of its `threads` first. At most `preemptions` times a thread that
/// could go on is interrupted.
pub(crate) fn check(threads: usize, preemptions: usize, model: impl Fn(Turn) + Clone + Sync + Send + 'static) {
    for turn in (0..threads).map(Turn) {
        let model = model.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(preemptions);
        builder.check(move || model(turn));
    }
}
