//! Strands that have all been started before any of them begins its work.
//!
//! Without this, strands that never block could keep others from ever being
//! started (may's workers look for new coroutines only when they have nothing
//! else), and an experiment would measure its own beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::peers::Stackful;

pub struct Crowd<P: Stackful> {
    gate: Arc<Gate<P>>,
    pub handles: Vec<P::Handle>,
}

struct Gate<P: Stackful> {
    /// Strands still on their way to the gate.
    missing: AtomicUsize,
    open: AtomicBool,
    /// Who waits for the last strand to arrive.
    gatherer: P::Unparker,
}

impl<P: Stackful> Crowd<P> {
    /// Spawns strands and returns when all stand before the gate: parked, but
    /// perhaps for the last. Called from a strand. Once released, each does
    /// `work` with its number.
    pub fn gather(strands: usize, work: impl Fn(usize) -> u64 + Clone + Send + 'static) -> Crowd<P> {
        let gate =
            Arc::new(Gate { missing: AtomicUsize::new(strands), open: AtomicBool::new(false), gatherer: P::current() });
        let spawn = |strand| {
            let (gate, work) = (gate.clone(), work.clone());
            P::spawn(move || {
                gate.pass();
                drop(gate);
                work(strand)
            })
        };
        let handles = (0..strands).map(spawn).collect();
        // Pairs with the decrement in `pass`.
        while gate.missing.load(Ordering::Acquire) > 0 {
            P::park();
        }
        Crowd { gate, handles }
    }

    /// Opens the gate and unparks everybody.
    pub fn release(&self) {
        // Pairs with the load in `pass`.
        self.gate.open.store(true, Ordering::Release);
        for handle in &self.handles {
            P::unpark(&P::unparker(handle));
        }
    }

    /// What the strands return.
    pub fn join(self) -> impl Iterator<Item = u64> {
        self.handles.into_iter().map(P::join)
    }
}

impl<P: Stackful> Gate<P> {
    fn pass(&self) {
        // Pairs with the load in `gather`.
        if self.missing.fetch_sub(1, Ordering::Release) == 1 {
            P::unpark(&self.gatherer);
        }
        // Pairs with the store in `release`.
        while !self.open.load(Ordering::Acquire) {
            P::park();
        }
    }
}
