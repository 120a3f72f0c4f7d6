//! Rings of fibres and tasks in turn, in one runtime of Sinew's.
//!
//! Fibres use `park` and `unpark`. Tasks do the same thing by their own means: they are
//! pending until their waker is called.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use sinew::sync::Barrier;
use sinew::{Fibre, task};

use super::{RING, Ring, reading};
use crate::case::{Case, Outcome};
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::Peer;
use crate::peers::fibres::Fibres;

enum Unparker {
    Fibre(Fibre),
    Task(Waker),
}

impl Unparker {
    #[inline(always)]
    fn unpark(&self) {
        match self {
            Unparker::Fibre(fibre) => fibre.unpark(),
            Unparker::Task(waker) => waker.wake_by_ref(),
        }
    }
}

#[derive(Default)]
struct MixedRing {
    ring: Ring,
    /// Each member sets its own before the gate opens.
    unparkers: [OnceLock<Unparker>; RING],
}

/// Waits until the task's waker is called. May return for no reason.
async fn park() {
    let mut is_pending = true;
    poll_fn(|_| if std::mem::take(&mut is_pending) { Poll::Pending } else { Poll::Ready(()) }).await;
}

impl MixedRing {
    fn enter(&self, member: usize, unparker: Unparker) {
        assert!(self.unparkers[member].set(unparker).is_ok());
    }

    #[inline(always)]
    fn pass_to(&self, member: usize) {
        let unparker = self.unparkers[member].get().expect("set before the gate opened");
        self.ring.pass(member, || unparker.unpark());
    }

    fn pass_on(&self, member: usize) {
        self.pass_to((member + 1) % RING);
    }

    fn fibre(&self, member: usize, mut tally: Tally) -> u64 {
        loop {
            if self.ring.take(member) {
                tally.was_void();
            } else {
                sinew::park();
                while !self.ring.take(member) {
                    sinew::park();
                }
            }
            if !tally.tick() {
                return self.close(member, tally);
            }
            self.pass_on(member);
        }
    }

    async fn task(&self, member: usize, mut tally: Tally) -> u64 {
        loop {
            if self.ring.take(member) {
                tally.was_void();
            } else {
                park().await;
                while !self.ring.take(member) {
                    park().await;
                }
            }
            if !tally.tick() {
                return self.close(member, tally);
            }
            self.pass_on(member);
        }
    }

    fn close(&self, member: usize, tally: Tally) -> u64 {
        if self.ring.seen_end.fetch_add(1, Ordering::Relaxed) < RING - 1 {
            self.pass_on(member);
        }
        tally.close()
    }
}

enum Handle {
    Fibre(sinew::JoinHandle<u64>),
    Task(task::JoinHandle<u64>),
}

impl Handle {
    fn join(self) -> u64 {
        match self {
            Handle::Fibre(fibre) => fibre.join().expect("a fibre that does not panic"),
            Handle::Task(task) => task.join().expect("a task that does not panic"),
        }
    }
}

/// Spawns the strand of that number: every other member of a ring is a task.
fn spawn(number: usize, rings: &Arc<[MixedRing]>, gate: &Arc<Barrier>, window: &Arc<Window>) -> Handle {
    let (rings, gate, window) = (rings.clone(), gate.clone(), window.clone());
    let (ring, member) = (number / RING, number % RING);
    if member.is_multiple_of(2) {
        return Handle::Task(task::spawn(async move {
            let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
            rings[ring].enter(member, Unparker::Task(waker));
            gate.wait_async().await;
            let tally = Tally::new(&window, number);
            rings[ring].task(member, tally).await
        }));
    }
    Handle::Fibre(sinew::spawn(move || {
        rings[ring].enter(member, Unparker::Fibre(sinew::current()));
        gate.wait();
        rings[ring].fibre(member, Tally::new(&window, number))
    }))
}

pub fn measure(case: &Case) -> Outcome {
    let strands = case.threads;
    let (window, timekeeper) = Window::open(strands, case.window(), Audit::Counted);
    let shared = window.clone();
    let counts = Fibres::new(case.processors, &case.peer).run(async move {
        let rings: Arc<[MixedRing]> = (0..strands / RING).map(|_| MixedRing::default()).collect();
        let gate = Arc::new(Barrier::new(strands + 1));
        let handles: Vec<Handle> = (0..strands).map(|number| spawn(number, &rings, &gate, &shared)).collect();
        gate.wait();
        rings.iter().for_each(|ring| ring.pass_to(0));
        handles.into_iter().map(Handle::join).collect::<Vec<u64>>()
    });
    Outcome::Measured(reading(&window, &counts, timekeeper))
}
