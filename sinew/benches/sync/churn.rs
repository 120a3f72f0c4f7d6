//! `churn`: 100 strands per processor and an array of semaphores. Each strand
//! picks a semaphore at random, does V on it, which lets another strand go on,
//! and then P, which blocks until a third one comes by.
//!
//! In the beginning one strand waits at each semaphore. A V and a P leave the
//! number of those who wait as it is, so that every P blocks, but for those
//! that find another processor's V. How many do not is found by an audit, and
//! they are taken off: measured is the rate of those that blocked.
//!
//! The variant is the number of semaphores per processor. With 50 of them half
//! of the strands are ready at any time; with 99 there is one for each
//! processor, and a processor's ready queue is all but empty.
//!
//! The semaphores of kernel threads, which are made of std's parts, let whoever
//! runs take what it has just posted: almost none of their operations block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::blocking::{Blocking, Experiment};
use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::run_task;
use crate::support::random::Random;
use crate::support::report::{Bound, Column, Report};
use crate::support::window::{Audit, Tally, Window};

pub const NAME: &str = "churn";

const STRANDS_PER_PROCESSOR: usize = 100;
const SPOTS_PER_PROCESSOR: [&str; 2] = ["50", "99"];
const LIMIT: Duration = Duration::from_secs(20);

/// Yields of the root after the last standing waiter has been seen to begin its
/// wait: it has blocked by then.
const SETTLING_YIELDS: usize = 1000;

/// A semaphore on lines of its own.
#[repr(align(128))]
struct Spot<S>(S);

/// What the strands share besides the window.
struct Field<S> {
    spots: Vec<Spot<S>>,
    strands: usize,
    /// Strands that begin by waiting and have come to that.
    standing: AtomicUsize,
    /// Whether somebody has posted for all who wait at the end.
    dissolved: AtomicBool,
}

impl<S> Field<S> {
    fn new(case: &Case, semaphore: impl Fn() -> S) -> Arc<Field<S>> {
        let per_processor: usize = case.variant.parse().expect("semaphores per processor");
        Arc::new(Field {
            spots: (0..per_processor * case.processors).map(|_| Spot(semaphore())).collect(),
            strands: STRANDS_PER_PROCESSOR * case.processors,
            standing: AtomicUsize::new(0),
            dissolved: AtomicBool::new(false),
        })
    }

    fn pick(&self, random: &mut Random) -> &S {
        &self.spots[random.below(self.spots.len())].0
    }

    fn is_settled(&self) -> bool {
        self.standing.load(Relaxed) == self.spots.len()
    }

    /// By the first strand that sees the end: lets all go on that wait.
    fn dissolve(&self, post: impl Fn(&S, usize)) {
        if !self.dissolved.swap(true, Relaxed) {
            self.spots.iter().for_each(|spot| post(&spot.0, self.strands));
        }
    }
}

pub struct Churn;

fn strand<P: Blocking>(field: &Field<P::Semaphore>, strand: usize, mut tally: Tally) -> u64 {
    let mut random = Random::of(strand);
    loop {
        let spot = field.pick(&mut random);
        P::post(spot, 1);
        if !tally.probe(|| P::try_wait(spot)) {
            P::wait(spot);
        }
        if !tally.tick() {
            break;
        }
    }
    field.dissolve(P::post);
    tally.close()
}

async fn task(field: &Field<Semaphore>, strand: usize, mut tally: Tally) -> u64 {
    let mut random = Random::of(strand);
    loop {
        let spot = field.pick(&mut random);
        spot.add_permits(1);
        if !tally.probe(|| spot.try_acquire().map(|permit| permit.forget()).is_ok()) {
            wait(spot).await;
        }
        if !tally.tick() {
            break;
        }
    }
    field.dissolve(Semaphore::add_permits);
    tally.close()
}

async fn wait(semaphore: &Semaphore) {
    semaphore.acquire().await.expect("never closed").forget();
}

impl Experiment for Churn {
    fn blocking<P: Blocking>(runtime: P, case: &Case) -> Reading {
        let field = Field::new(case, P::semaphore);
        let (window, timekeeper) = Window::open(field.strands, case.window(), Audit::Probes);
        let shared = window.clone();
        let count: u64 = runtime.run(move || {
            let (at, opened) = (field.clone(), shared.clone());
            let standing = Crowd::<P>::gather(field.spots.len(), move |number| {
                let tally = Tally::new(opened.clone(), number);
                at.standing.fetch_add(1, Relaxed);
                P::wait(&at.spots[number].0);
                strand::<P>(&at, number, tally)
            });
            let at = field.clone();
            let others = Crowd::<P>::gather(field.strands - field.spots.len(), move |number| {
                let number = at.spots.len() + number;
                strand::<P>(&at, number, Tally::new(shared.clone(), number))
            });
            standing.release();
            while !field.is_settled() {
                P::yield_now();
            }
            (0..SETTLING_YIELDS).for_each(|_| P::yield_now());
            others.release();
            standing.join().chain(others.join()).sum()
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        reading(count, elapsed, &window)
    }

    fn tokio(case: &Case) -> Reading {
        let field = Field::new(case, || Semaphore::new(0));
        let (window, timekeeper) = Window::open(field.strands, case.window(), Audit::Probes);
        let shared = window.clone();
        let count: u64 = run_task(case.processors, async move {
            let stand = |number: usize| {
                let (at, tally) = (field.clone(), shared.clone());
                tokio::spawn(async move {
                    let tally = Tally::new(tally, number);
                    at.standing.fetch_add(1, Relaxed);
                    wait(&at.spots[number].0).await;
                    task(&at, number, tally).await
                })
            };
            let mut handles: Vec<_> = (0..field.spots.len()).map(stand).collect();
            while !field.is_settled() {
                tokio::task::yield_now().await;
            }
            for _ in 0..SETTLING_YIELDS {
                tokio::task::yield_now().await;
            }
            let go = |number| {
                let (at, window) = (field.clone(), shared.clone());
                tokio::spawn(async move { task(&at, number, Tally::new(window, number)).await })
            };
            handles.extend((field.spots.len()..field.strands).map(go));
            let mut count = 0;
            for handle in handles {
                count += handle.await.expect("a task that does not panic");
            }
            count
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        reading(count, elapsed, &window)
    }
}

fn reading(count: u64, elapsed: Duration, window: &Window) -> Reading {
    let void = window.void_share().unwrap_or(f64::NAN);
    let rate = count as f64 / elapsed.as_secs_f64();
    Reading::of([("rate", rate), ("blocked", rate * (1.0 - void)), ("void", void)])
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let configurations = SPOTS_PER_PROCESSOR.into_iter().flat_map(|spots| [(1, spots), (2, spots)]);
    let cases = configurations.clone().flat_map(|(n, spots)| {
        let case = move |&who| Case::new(NAME, who, n, spots, options.window_ms());
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("churn: 100 strands per processor, V and P on random semaphores");
    for (n, spots) in configurations.clone() {
        for (title, figure, unit) in [
            ("million operations/s that blocked", "blocked", 1e6),
            ("million operations/s", "rate", 1e6),
            ("% of operations that did not block", "void", 0.01),
        ] {
            let title = format!("{title}, {spots} semaphores per processor, {n} processor(s)");
            let select = |c: &Case| c.processors == n && c.variant == spots;
            report.table(&title, &results, select, Column { figure, unit });
        }
    }
    for sinew in results.sinews() {
        for (n, spots) in configurations.clone() {
            let bound = if n == 1 { 2.0 } else { 1.5 };
            let rate = |who| results.median("blocked", who, n, spots);
            let claim = format!("churn, {spots} semaphores each, {n} processor(s), at least {bound}x Tokio");
            report.bar(&results, sinew, &claim, rate(sinew) / rate(Contender::Tokio), Bound::AtLeast(bound));
        }
    }
}
