//! The work model of several experiments: concurrent loops, each turn of which
//! computes, takes one of some locks at random, computes while it has the lock,
//! and releases it.

use std::sync::Arc;
use std::time::Duration;

use super::crowd::Crowd;
use super::random::Random;
use super::window::{Audit, Span, Tally, Window};
use super::work::Unit;
use crate::case::Case;
use crate::peers::Peer;

pub struct Plan {
    pub locks: usize,
    /// The length of the private work, and of the critical section.
    pub work: Duration,
    pub policy: String,
}

/// A lock on lines of its own: small locks must not share a line.
#[repr(align(128))]
struct Padded<P: Peer>(P::Mutex);

/// The turns of the loops.
pub struct Turns {
    /// The number of turns of each loop.
    pub counts: Vec<u64>,
    pub span: Span,
    /// The measured length of the private work, without locks and with nothing else to
    /// do: the mean of before and after.
    pub unit_ns: f64,
}

impl Turns {
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of cores that the turns would keep busy if locks and switches
    /// cost nothing.
    pub fn cores(&self) -> f64 {
        self.total() as f64 * 2.0 * self.unit_ns / self.span.elapsed.as_nanos() as f64
    }

    /// Returns the share of the processors' time that the process had.
    pub fn cpu_share(&self, processors: usize) -> f64 {
        self.span.cpu.as_secs_f64() / (self.span.elapsed.as_secs_f64() * processors as f64)
    }

    /// Returns the CPU time of one turn.
    pub fn cpu_ns(&self) -> f64 {
        self.span.cpu.as_nanos() as f64 / self.total() as f64
    }
}

/// Runs `case.threads` loops.
pub fn run<P: Peer>(peer: P, case: &Case, plan: Plan) -> Turns {
    let loops = case.threads;
    let at_once = case.processors.min(loops);
    let unit = Unit::calibrate(plan.work, at_once);
    let before_ns = unit.measured_ns(at_once);
    let (window, timekeeper) = Window::open(loops, case.window(), Audit::None);
    let counts = peer.run(async move {
        let locks: Arc<[Padded<P>]> = (0..plan.locks).map(|_| Padded(P::mutex(&plan.policy))).collect();
        Crowd::<P>::run(loops, move |place| {
            let (locks, window) = (locks.clone(), window.clone());
            async move {
                let mut tally = Tally::new(&window, place.number);
                let mut random = Random::of(place.number);
                loop {
                    unit.compute();
                    P::locked(&locks[random.below(locks.len())].0, move || unit.compute()).await;
                    if !tally.tick() {
                        return tally.close();
                    }
                }
            }
        })
        .await
    });
    let span = timekeeper.span();
    let after_ns = unit.measured_ns(at_once);
    Turns { counts, span, unit_ns: (before_ns + after_ns) / 2.0 }
}
