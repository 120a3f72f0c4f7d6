//! `waiters`: thousands of strands that wait, each with a timeout of an hour, and are all
//! let go at once.
//!
//! - `notified-N`: N strands wait for one condition variable with one lock, and are
//!   notified. Tokio has `Notify` for that.
//! - `cancelled-N`: each of N strands waits for a channel of its own, and is cancelled.
//!   Tasks are aborted.
//!
//! One more strand, the *ticker*, sleeps for short times on the same processors and
//! notes how long it takes until its next turn. Sinew's ticker has high priority: it does
//! not queue behind the strands that were let go. Its longest gap shows how long a
//! processor, or a lock of the runtime, is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::peers::cancelling::{self, Cancelling, CancellingBody};

const NOTIFIED: &str = "notified";
const CANCELLED: &str = "cancelled";

/// The length of the ticker's sleeps.
const TICK: Duration = Duration::from_micros(200);

/// Yields of the root after the last waiter has begun its wait: it has blocked by then.
const SETTLING_YIELDS: usize = 1000;

pub static WAITERS: Experiment = Experiment {
    name: "waiters",
    source: "Sinew",
    measures: "Milliseconds until the last of many waiting strands has gone after all were notified, or cancelled, at once, and how long an urgent strand is kept from its turn meanwhile.",
    good: "Twice the waiters take twice the time, and the urgent strand is hardly kept: the runtime does not hold one lock while it notifies or cancels a hundred thousand strands.",
    metrics: &[
        Metric::lower("total_ms", "ms until the last has gone", 1.0),
        Metric::beside("told_ms", "ms until the last was told", 1.0),
        Metric::beside("gap_ms", "ms, the urgent strand's longest gap", 1.0),
        Metric::beside("ticks", "its turns", 1.0),
    ],
    plots: &[Plot::Bars { metric: "total_ms" }, Plot::Bars { metric: "gap_ms" }],
    limit: |_| Duration::from_secs(60),
    variants: |depth, _, _| {
        let sizes: &[usize] = match depth {
            Depth::Tour => &[10_000],
            Depth::Full => &[50_000, 100_000],
        };
        let of = |how| sizes.iter().map(move |size| Variant::new(format!("{how}-{size}"), *size));
        of(NOTIFIED).chain(of(CANCELLED)).collect()
    },
    cannot: cancelling::cannot,
    measure: cancelling::measure::<Waiters>,
    bars: &[
        Bar::of("sinew/fair", "notified-100000", 2).at_most(2.5).over_variant("notified-50000"),
        Bar::of("sinew/fair", "notified-50000", 2).metric("gap_ms").at_most(5.0).in_every_run(),
        Bar::of("sinew/fair", "notified-100000", 2).metric("gap_ms").at_most(5.0).in_every_run(),
        Bar::of("sinew/fair", "cancelled-100000", 2).at_most(2.5).over_variant("cancelled-50000"),
        Bar::of("sinew/fair", "cancelled-50000", 2).metric("gap_ms").at_most(5.0).in_every_run(),
        Bar::of("sinew/fair", "cancelled-100000", 2).metric("gap_ms").at_most(5.0).in_every_run(),
    ],
    ..PLAIN
};

/// The part that all strands share.
struct Hall<P: Cancelling> {
    waiters: usize,
    door: P::Door,
    /// The last strand to go unparks it.
    root: P::Parker,
    /// Strands that have begun to wait.
    waiting: AtomicUsize,
    /// Strands that have gone.
    gone: AtomicUsize,
    over: AtomicBool,
    /// The ticker's turns. Written by the ticker.
    ticks: AtomicUsize,
}

impl<P: Cancelling> Hall<P> {
    fn arrive(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    fn is_empty(&self) -> bool {
        // Pairs with the addition in `Leaving`.
        self.gone.load(Ordering::Acquire) == self.waiters
    }

    fn is_ready(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == self.waiters && self.ticks.load(Ordering::Relaxed) > 0
    }
}

/// Counts a strand as gone when it is dropped: an aborted task does nothing else.
struct Leaving<P: Cancelling>(Arc<Hall<P>>);

impl<P: Cancelling> Drop for Leaving<P> {
    fn drop(&mut self) {
        // Pairs with the load in `is_empty`.
        if self.0.gone.fetch_add(1, Ordering::Release) + 1 == self.0.waiters {
            P::unpark(&self.0.root);
        }
    }
}

async fn notified<P: Cancelling>(leaving: Leaving<P>) -> u64 {
    let hall = &leaving.0;
    P::pass(&hall.door, || hall.arrive()).await;
    0
}

async fn cancelled<P: Cancelling>(leaving: Leaving<P>, mut receiver: P::Receiver) -> u64 {
    leaving.0.arrive();
    let received = P::receive_within_hour(&mut receiver).await;
    assert_eq!(received, None, "nothing was sent");
    0
}

/// Returns the longest time between two turns, in nanoseconds.
async fn tick<P: Cancelling>(hall: Arc<Hall<P>>) -> u64 {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !hall.over.load(Ordering::Relaxed) {
        P::sleep(TICK).await;
        hall.ticks.store(hall.ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.as_nanos() as u64
}

struct Waiters;

impl CancellingBody for Waiters {
    fn measure<P: Cancelling>(peer: P, case: &Case) -> Reading {
        let waiters = case.threads;
        let is_notified = case.variant.starts_with(NOTIFIED);
        peer.run(async move {
            let own = P::parker();
            let hall = Arc::new(Hall::<P> {
                waiters,
                door: P::door(),
                root: own.clone(),
                waiting: AtomicUsize::new(0),
                gone: AtomicUsize::new(0),
                over: AtomicBool::new(false),
                ticks: AtomicUsize::new(0),
            });
            let mut senders = Vec::new();
            let mut handles = Vec::with_capacity(waiters);
            for _ in 0..waiters {
                let leaving = Leaving(hall.clone());
                if is_notified {
                    handles.push(P::spawn(notified(leaving)));
                } else {
                    let (sender, receiver) = P::channel();
                    senders.push(sender);
                    handles.push(P::spawn(cancelled(leaving, receiver)));
                }
            }
            let ticker = P::spawn_urgent(tick(hall.clone()));
            while !hall.is_ready() {
                P::yield_now().await;
            }
            for _ in 0..SETTLING_YIELDS {
                P::yield_now().await;
            }
            let begun = Instant::now();
            if is_notified {
                P::open(&hall.door);
            } else {
                handles.iter().for_each(P::cancel);
            }
            let told = begun.elapsed();
            while !hall.is_empty() {
                P::park(&own).await;
            }
            let total = begun.elapsed();
            hall.over.store(true, Ordering::Relaxed);
            let gap_ns = P::join(ticker).await;
            for handle in handles {
                if is_notified {
                    P::join(handle).await;
                } else {
                    P::join_cancelled(handle).await;
                }
            }
            Reading::of([
                ("total_ms", total.as_secs_f64() * 1e3),
                ("told_ms", told.as_secs_f64() * 1e3),
                ("gap_ms", gap_ns as f64 / 1e6),
                ("ticks", hall.ticks.load(Ordering::Relaxed) as f64),
            ])
        })
    }
}
