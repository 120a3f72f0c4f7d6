//! `waiters`: 50,000 and 100,000 strands that wait, each for an hour at most,
//! and are all let go at once, while one more strand, the *ticker*, sleeps for short
//! times on the same two processors and watches how long it takes to get its next
//! turn. It is a fibre of high priority: it does not queue behind those who were let
//! go, and so sees how long a processor, or a lock of the runtime, is kept.
//!
//! Two variants: they wait for one condition variable, with one lock, and are
//! notified; or each waits for a channel of its own, and is cancelled. Tokio has
//! `Notify` and the abortion of tasks for that.
//!
//! Measured: the time until the last has gone, the part of it in which they were
//! notified or cancelled, and the ticker's longest gap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use sinew::sync::mpsc::channel;
use sinew::sync::{Condvar, Mutex};
use sinew::{FibreBuilder, Priority};

use crate::support::case::{Case, Contender, Scheduler};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::Stackful;
use crate::support::peers::fibres::Fibres;
use crate::support::peers::tasks::run_timed_task;
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "waiters";

const NOTIFIED: &str = "notified";
const CANCELLED: &str = "cancelled";
const SIZES: [u64; 2] = [50_000, 100_000];
const PROCESSORS: usize = 2;
const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(60);

/// How long the ticker sleeps.
const TICK: Duration = Duration::from_micros(200);

/// Yields of the root after the last waiter has been seen to begin its wait.
const SETTLING_YIELDS: usize = 1000;

fn variant(how: &str, waiters: u64) -> String {
    format!("{how}-{waiters}")
}

/// What all strands share.
#[derive(Default)]
struct Hall {
    /// How many have begun to wait.
    waiting: AtomicU64,
    /// How many have gone.
    gone: AtomicU64,
    over: AtomicBool,
    ticks: AtomicU64,
}

impl Hall {
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    fn go(&self) -> u64 {
        // Pairs with the load in `is_empty`.
        self.gone.fetch_add(1, Ordering::Release) + 1
    }

    fn is_empty(&self, waiters: u64) -> bool {
        // Pairs with the addition in `go`.
        self.gone.load(Ordering::Acquire) == waiters
    }

    fn is_full(&self, waiters: u64) -> bool {
        self.waiting.load(Ordering::Relaxed) == waiters
    }

    fn is_ticking(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) > 0
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// By the ticker, between two sleeps.
    fn tick(&self, gap: &mut Gap) {
        self.ticks.store(self.ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        gap.note();
    }
}

/// The longest time between two looks.
struct Gap {
    last: Instant,
    longest: Duration,
}

impl Gap {
    fn new() -> Gap {
        Gap { last: Instant::now(), longest: Duration::ZERO }
    }

    fn note(&mut self) {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }
}

struct Timing {
    /// All were notified, or cancelled.
    told: Duration,
    /// All had gone.
    total: Duration,
    longest_gap: Duration,
}

fn reading(timing: Timing, hall: &Hall) -> Reading {
    let ns = |time: Duration| time.as_nanos() as f64;
    Reading::of([
        ("told", ns(timing.told)),
        ("total", ns(timing.total)),
        ("gap", ns(timing.longest_gap)),
        ("ticks", hall.ticks.load(Ordering::Relaxed) as f64),
    ])
}

/// Lets the waiters go with `tell` when all are there. By the root, a fibre;
/// the last waiter unparks it.
fn sinew_timing(hall: &Arc<Hall>, waiters: u64, tell: impl FnOnce()) -> Timing {
    let urgent = FibreBuilder::new().priority(Priority::High);
    let ticker = urgent.spawn({
        let hall = hall.clone();
        move || {
            let mut gap = Gap::new();
            while !hall.is_over() {
                sinew::sleep(TICK);
                hall.tick(&mut gap);
            }
            gap.longest
        }
    });
    let ticker = ticker.expect("a ticker");
    while !hall.is_full(waiters) || !hall.is_ticking() {
        sinew::yield_now();
    }
    (0..SETTLING_YIELDS).for_each(|_| sinew::yield_now());
    let begun = Instant::now();
    tell();
    let told = begun.elapsed();
    while !hall.is_empty(waiters) {
        sinew::park();
    }
    let total = begun.elapsed();
    hall.over.store(true, Ordering::Relaxed);
    Timing { told, total, longest_gap: ticker.join().expect("a ticker") }
}

fn sinew_notified(case: &Case, scheduler: Scheduler) -> Reading {
    let waiters = case.amount;
    Fibres::new(case.processors, scheduler).run(move || {
        let hall = Arc::new(Hall::default());
        let door = Arc::new((Mutex::new(false), Condvar::new()));
        let root = sinew::current();
        let spawn = |_| {
            let (hall, door, root) = (hall.clone(), door.clone(), root.clone());
            sinew::spawn(move || {
                let (open, opened) = &*door;
                let mut is_open = open.lock().expect("no poison");
                hall.wait();
                while !*is_open {
                    is_open = opened.wait_timeout(is_open, HOUR).expect("no poison").0;
                }
                drop(is_open);
                if hall.go() == waiters {
                    root.unpark();
                }
            })
        };
        let handles: Vec<_> = (0..waiters).map(spawn).collect();
        let timing = sinew_timing(&hall, waiters, || {
            *door.0.lock().expect("no poison") = true;
            door.1.notify_all();
        });
        handles.into_iter().for_each(|handle| handle.join().expect("a fibre that does not panic"));
        reading(timing, &hall)
    })
}

fn sinew_cancelled(case: &Case, scheduler: Scheduler) -> Reading {
    let waiters = case.amount;
    Fibres::new(case.processors, scheduler).run(move || {
        let hall = Arc::new(Hall::default());
        let root = sinew::current();
        let spawn = |_| {
            let (hall, root) = (hall.clone(), root.clone());
            let (sender, receiver) = channel::<u64>();
            let handle = sinew::spawn(move || {
                hall.wait();
                assert!(receiver.recv_timeout(HOUR).is_err(), "nothing was sent");
                if hall.go() == waiters {
                    root.unpark();
                }
            });
            (sender, handle)
        };
        let (senders, handles): (Vec<_>, Vec<_>) = (0..waiters).map(spawn).unzip();
        let timing = sinew_timing(&hall, waiters, || handles.iter().for_each(|handle| handle.fibre().cancel()));
        handles.into_iter().for_each(|handle| handle.join().expect("a fibre that does not panic"));
        drop(senders);
        reading(timing, &hall)
    })
}

/// Counts a task as gone when it is dropped: one that is aborted does nothing
/// else.
struct Leaving {
    hall: Arc<Hall>,
    waiters: u64,
    last: Arc<Notify>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.hall.go() == self.waiters {
            self.last.notify_one();
        }
    }
}

async fn tokio_timing(hall: &Arc<Hall>, waiters: u64, last: &Notify, tell: impl FnOnce()) -> Timing {
    let ticker = tokio::spawn({
        let hall = hall.clone();
        async move {
            let mut gap = Gap::new();
            while !hall.is_over() {
                tokio::time::sleep(TICK).await;
                hall.tick(&mut gap);
            }
            gap.longest
        }
    });
    while !hall.is_full(waiters) || !hall.is_ticking() {
        tokio::task::yield_now().await;
    }
    for _ in 0..SETTLING_YIELDS {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    tell();
    let told = begun.elapsed();
    while !hall.is_empty(waiters) {
        last.notified().await;
    }
    let total = begun.elapsed();
    hall.over.store(true, Ordering::Relaxed);
    Timing { told, total, longest_gap: ticker.await.expect("a ticker") }
}

fn tokio_notified(case: &Case) -> Reading {
    let waiters = case.amount;
    run_timed_task(case.processors, async move {
        let hall = Arc::new(Hall::default());
        let (door, last) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        for _ in 0..waiters {
            let door = door.clone();
            let leaving = Leaving { hall: hall.clone(), waiters, last: last.clone() };
            tokio::spawn(async move {
                // Made first, so that `notify_waiters` reaches it in any case.
                let opened = door.notified();
                leaving.hall.wait();
                tokio::time::timeout(HOUR, opened).await.expect("not after an hour");
                drop(leaving);
            });
        }
        let timing = tokio_timing(&hall, waiters, &last, || door.notify_waiters()).await;
        reading(timing, &hall)
    })
}

fn tokio_cancelled(case: &Case) -> Reading {
    let waiters = case.amount;
    run_timed_task(case.processors, async move {
        let hall = Arc::new(Hall::default());
        let last = Arc::new(Notify::new());
        let spawn = |_| {
            let (sender, mut receiver) = unbounded_channel::<u64>();
            let leaving = Leaving { hall: hall.clone(), waiters, last: last.clone() };
            let handle = tokio::spawn(async move {
                leaving.hall.wait();
                let received = tokio::time::timeout(HOUR, receiver.recv()).await;
                drop((received, leaving));
            });
            (sender, handle)
        };
        let (senders, handles): (Vec<_>, Vec<_>) = (0..waiters).map(spawn).unzip();
        let abort = || handles.iter().for_each(|handle| handle.abort());
        let timing = tokio_timing(&hall, waiters, &last, abort).await;
        drop(senders);
        reading(timing, &hall)
    })
}

pub fn measure(case: &Case) -> Reading {
    let notified = case.variant.starts_with(NOTIFIED);
    match case.contender {
        Contender::Sinew(scheduler) if notified => sinew_notified(case, scheduler),
        Contender::Sinew(scheduler) => sinew_cancelled(case, scheduler),
        Contender::Tokio if notified => tokio_notified(case),
        Contender::Tokio => tokio_cancelled(case),
        other => unreachable!("100,000 strands of {other}"),
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    // may cannot map that many stacks, and the kernel cannot have that many threads.
    let contenders = options.contenders(&[Contender::Tokio]);
    let configurations = [NOTIFIED, CANCELLED].into_iter().flat_map(|how| SIZES.map(|waiters| (how, waiters)));
    let cases = configurations.clone().flat_map(|(how, waiters)| {
        let case = move |&who| Case::new(NAME, who, PROCESSORS, &variant(how, waiters), waiters);
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("waiters: all let go at once, 2 processors");
    for (how, waiters) in configurations {
        for (title, figure, unit) in [
            ("ms until the last has gone", "total", 1e6),
            ("ms until the last was told", "told", 1e6),
            ("ms, the ticker's longest gap", "gap", 1e6),
            ("the ticker's turns", "ticks", 1.0),
        ] {
            let variant = variant(how, waiters);
            let title = format!("{waiters} {how}: {title}");
            report.table(&title, &results, |c| c.variant == variant, Column { figure, unit });
        }
    }
    for sinew in results.sinews() {
        for how in [NOTIFIED, CANCELLED] {
            let total = |waiters| results.median("total", sinew, PROCESSORS, &variant(how, waiters));
            let gap_ms = |waiters| results.max("gap", sinew, PROCESSORS, &variant(how, waiters)) / 1e6;
            let mut bar = |claim: &str, measured, bound| {
                let claim = format!("waiters, {how}, {claim}");
                report.bar(&results, sinew, &claim, measured, Bound::AtMost(bound));
            };
            bar("twice as many take at most 2.5x the time", total(SIZES[1]) / total(SIZES[0]), 2.5);
            for waiters in SIZES {
                bar(&format!("{waiters}, no gap of all runs above 5 ms"), gap_ms(waiters), 5.0);
            }
        }
    }
}
