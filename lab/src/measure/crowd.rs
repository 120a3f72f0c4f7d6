//! Strands that have all been started before any of them begins its work.
//!
//! Otherwise, strands that never block could keep others from being started: may's workers look
//! for new coroutines only when they have nothing else to run. Also, an experiment would measure
//! its own beginning.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::peers::Peer;

pub struct Crowd<P: Peer> {
    roster: Arc<Roster<P>>,
    handles: Vec<P::Handle>,
}

/// The strands of the crowd.
pub struct Roster<P: Peer> {
    /// Strands still on their way to the gate.
    missing: AtomicUsize,
    open: AtomicBool,
    /// The strand that waits until the last one has arrived.
    gatherer: P::Parker,
    /// Each strand sets its own before it comes to the gate.
    parkers: Vec<OnceLock<P::Parker>>,
}

/// A strand's own part of the crowd.
pub struct Place<P: Peer> {
    pub number: usize,
    pub own: P::Parker,
    pub roster: Arc<Roster<P>>,
}

impl<P: Peer> Crowd<P> {
    /// Spawns strands and returns when all stand before the gate. All but perhaps the
    /// last are parked. Called from a strand. Each strand does `work` after the release.
    pub async fn gather<F>(strands: usize, work: impl Fn(Place<P>) -> F + Clone + Send + 'static) -> Crowd<P>
    where
        F: Future<Output = u64> + Send + 'static,
    {
        let gatherer = P::parker();
        let roster = Arc::new(Roster {
            missing: AtomicUsize::new(strands),
            open: AtomicBool::new(false),
            gatherer: gatherer.clone(),
            parkers: (0..strands).map(|_| OnceLock::new()).collect(),
        });
        let mut handles = Vec::with_capacity(strands);
        for number in 0..strands {
            let (roster, work) = (roster.clone(), work.clone());
            handles.push(P::spawn(async move {
                let own = P::parker();
                assert!(roster.parkers[number].set(own.clone()).is_ok());
                roster.pass(&own).await;
                work(Place { number, own, roster }).await
            }));
        }
        // Pairs with the decrement in `pass`.
        while roster.missing.load(Ordering::Acquire) > 0 {
            P::park(&gatherer).await;
        }
        Crowd { roster, handles }
    }

    /// Gathers strands, releases them, and returns their results. Called from a strand.
    pub async fn run<F>(strands: usize, work: impl Fn(Place<P>) -> F + Clone + Send + 'static) -> Vec<u64>
    where
        F: Future<Output = u64> + Send + 'static,
    {
        let crowd = Crowd::gather(strands, work).await;
        crowd.release();
        crowd.join().await
    }

    /// Opens the gate and unparks all strands.
    pub fn release(&self) {
        // Pairs with the load in `pass`.
        self.roster.open.store(true, Ordering::Release);
        for number in 0..self.handles.len() {
            P::unpark(self.roster.parker(number));
        }
    }

    pub fn roster(&self) -> &Roster<P> {
        &self.roster
    }

    /// Returns the results of the strands.
    pub async fn join(self) -> Vec<u64> {
        let mut results = Vec::with_capacity(self.handles.len());
        for handle in self.handles {
            results.push(P::join(handle).await);
        }
        results
    }
}

impl<P: Peer> Roster<P> {
    pub fn parker(&self, number: usize) -> &P::Parker {
        self.parkers[number].get().expect("set before the gate")
    }

    async fn pass(&self, own: &P::Parker) {
        // Pairs with the load in `gather`.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            P::unpark(&self.gatherer);
        }
        // Pairs with the store in `release`.
        while !self.open.load(Ordering::Acquire) {
            P::park(own).await;
        }
    }
}
