//! `mutex`: 1024 loops, 32 locks. Each turn of a loop computes for 1 µs, locks
//! one of the locks at random, computes for another 1 µs, and unlocks.
//!
//! Measured: turns of all loops relative to what as many kernel threads do at
//! the same time without locks and without anything else to do, before and
//! after; and how evenly they are spread: the fewest turns of any loop in any
//! second, and the most turns of a loop over the fewest of another. What share of
//! the processors' time the kernel gave to the loops is reported beside: much
//! less than all of it means that something else ran on the machine.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{process, thread};

use crate::blocking::{Blocking, Experiment};
use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::run_task;
use crate::support::procfs::Usage;
use crate::support::random::Random;
use crate::support::report::{Bound, Column, Report, Spread};

pub const NAME: &str = "mutex";

const LOOPS: usize = 1024;
const LOCKS: usize = 32;
const PROCESSORS: usize = 2;
/// Of Sinew's locks; the first is the one that the bars are for.
const POLICIES: [&str; 3] = ["barge", "spin", "hand-over"];
const PEERS_OWN: &str = "-";

const UNIT_NS: f64 = 1000.0;
const CALIBRATION: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
/// 1024 kernel threads take a while to start and to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A piece of computing: so many steps, each of which needs the one before.
#[derive(Clone, Copy)]
struct Unit {
    steps: u64,
}

impl Unit {
    /// Never inlined, and of steps that no compiler puts together: it takes the
    /// same time wherever it is called.
    #[inline(never)]
    fn compute(self) {
        let mut x = black_box(1_u64);
        for _ in 0..black_box(self.steps) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        black_box(x);
    }

    /// What takes 1 µs when as many threads compute at once.
    fn calibrate(threads: usize) -> Unit {
        let mut unit = Unit { steps: 500 };
        for _ in 0..2 {
            let steps = unit.steps as f64 * UNIT_NS / unit.measured_ns(threads);
            unit = Unit { steps: steps.round() as u64 };
        }
        unit
    }

    /// The time that it takes, the mean of that many threads at once, each the
    /// median of its rounds.
    fn measured_ns(self, threads: usize) -> f64 {
        const ROUND: u32 = 500;
        let rounds = move || {
            let begun = Instant::now();
            let mut times = Vec::new();
            while begun.elapsed() < CALIBRATION {
                let round = Instant::now();
                for _ in 0..ROUND {
                    self.compute();
                }
                times.push(round.elapsed().as_nanos() as f64 / f64::from(ROUND));
            }
            Spread::of(times).expect("a round").median
        };
        let at_once: Vec<_> = (0..threads).map(|_| thread::spawn(rounds)).collect();
        let sum: f64 = at_once.into_iter().map(|thread| thread.join().expect("rounds")).sum();
        sum / threads as f64
    }
}

/// What the loops share besides the locks.
struct Course {
    unit: Unit,
    turns: Vec<Turns>,
    over: AtomicBool,
}

/// One loop's turns so far, on a line of their own. Written by the loop.
#[repr(align(128))]
struct Turns(AtomicU64);

impl Course {
    fn new(unit: Unit) -> Arc<Course> {
        let turns = (0..LOOPS).map(|_| Turns(AtomicU64::new(0))).collect();
        Arc::new(Course { unit, turns, over: AtomicBool::new(false) })
    }

    /// Counts one turn; whether there shall be another.
    #[inline]
    fn tick(&self, strand: usize) -> bool {
        let turns = &self.turns[strand].0;
        turns.store(turns.load(Relaxed) + 1, Relaxed);
        !self.over.load(Relaxed)
    }

    fn snapshot(&self) -> Vec<u64> {
        self.turns.iter().map(|turns| turns.0.load(Relaxed)).collect()
    }

    /// By a kernel thread of its own, asleep but for one moment in a second.
    /// Begins when any loop does, for then all have been started.
    fn keep_time(&self, seconds: u64) -> Timing {
        while self.snapshot().iter().all(|&turns| turns == 0) {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(WARM_UP);
        let used = Usage::of(process::id());
        let begun = Instant::now();
        let first = self.snapshot();
        let mut least = u64::MAX;
        let mut last = first.clone();
        for second in 1..=seconds {
            let next = begun + SECOND * second as u32;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let now = self.snapshot();
            least = least.min(differences(&last, &now).min().unwrap_or(0));
            last = now;
        }
        let elapsed = begun.elapsed();
        let cpu_ns = Usage::of(process::id()).cpu_ns - used.cpu_ns;
        self.over.store(true, Relaxed);
        let counts: Vec<u64> = differences(&first, &last).collect();
        Timing { elapsed, cpu_ns, counts, least_in_a_second: least }
    }
}

fn differences(before: &[u64], after: &[u64]) -> impl Iterator<Item = u64> {
    before.iter().zip(after).map(|(before, after)| after - before)
}

struct Timing {
    elapsed: Duration,
    /// CPU time of all threads.
    cpu_ns: u64,
    /// Of every loop in all of the time.
    counts: Vec<u64>,
    least_in_a_second: u64,
}

/// Measures around `run`, which runs the loops until they are over.
fn measured(case: &Case, run: impl FnOnce(Arc<Course>)) -> Reading {
    let unit = Unit::calibrate(case.processors);
    let before_ns = unit.measured_ns(case.processors);
    let course = Course::new(unit);
    let seconds = case.amount;
    let timekeeper = thread::spawn({
        let course = course.clone();
        move || course.keep_time(seconds)
    });
    run(course);
    let timing = timekeeper.join().expect("the timekeeper");
    let after_ns = unit.measured_ns(case.processors);

    let unit_ns = (before_ns + after_ns) / 2.0;
    let ideal = case.processors as f64 * timing.elapsed.as_nanos() as f64 / (2.0 * unit_ns);
    let turns: u64 = timing.counts.iter().sum();
    let (most, fewest) = (timing.counts.iter().max(), timing.counts.iter().min());
    Reading::of([
        ("relative", turns as f64 / ideal),
        ("least", timing.least_in_a_second as f64),
        ("spread", *most.expect("loops") as f64 / *fewest.expect("loops") as f64),
        ("unit_ns", unit_ns),
        ("cpu", timing.cpu_ns as f64 / (case.processors as f64 * timing.elapsed.as_nanos() as f64)),
    ])
}

pub struct Mutexes;

impl Experiment for Mutexes {
    fn blocking<P: Blocking>(runtime: P, case: &Case) -> Reading {
        let locks: Arc<[P::Lock]> = (0..LOCKS).map(|_| P::lock(&case.variant)).collect();
        measured(case, |course| {
            runtime.run(move || {
                let crowd = Crowd::<P>::gather(LOOPS, move |strand| {
                    let mut random = Random::of(strand);
                    loop {
                        course.unit.compute();
                        P::locked(&locks[random.below(LOCKS)], || course.unit.compute());
                        if !course.tick(strand) {
                            return 0;
                        }
                    }
                });
                crowd.release();
                crowd.join().sum::<u64>()
            });
        })
    }

    fn tokio(case: &Case) -> Reading {
        measured(case, |course| {
            run_task(case.processors, async move {
                let locks: Arc<[_]> = (0..LOCKS).map(|_| tokio::sync::Mutex::new(())).collect();
                let gate = Arc::new(tokio::sync::Barrier::new(LOOPS));
                let spawn = |strand| {
                    let (course, locks, gate) = (course.clone(), locks.clone(), gate.clone());
                    tokio::spawn(async move {
                        gate.wait().await;
                        let mut random = Random::of(strand);
                        loop {
                            course.unit.compute();
                            let guard = locks[random.below(LOCKS)].lock().await;
                            course.unit.compute();
                            drop(guard);
                            if !course.tick(strand) {
                                return;
                            }
                        }
                    })
                };
                let handles: Vec<_> = (0..LOOPS).map(spawn).collect();
                for handle in handles {
                    handle.await.expect("a task that does not panic");
                }
            });
        })
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let seconds = if options.quick { 1 } else { 3 };
    let cases = contenders.iter().flat_map(|&who| {
        let variants: &[&str] = if who.is_sinew() { &POLICIES } else { &[PEERS_OWN] };
        variants.iter().map(move |variant| Case::new(NAME, who, PROCESSORS, variant, seconds))
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading(&format!("mutex: 1024 loops, 32 locks, 1 + 1 µs, 2 processors, {seconds} s"));
    for (title, figure) in [
        ("turns relative to the ideal", "relative"),
        ("fewest turns of a loop in a second", "least"),
        ("most turns of a loop / fewest of another", "spread"),
        ("ns of a unit of computing", "unit_ns"),
        ("share of the processors' time that it had", "cpu"),
    ] {
        report.table(title, &results, |_| true, Column { figure, unit: 1.0 });
    }
    for sinew in results.sinews() {
        let policy = POLICIES[0];
        let relative = results.median("relative", sinew, PROCESSORS, policy);
        let least = results.min("least", sinew, PROCESSORS, policy);
        let spread = results.max("spread", sinew, PROCESSORS, policy);
        let mut bar = |claim, measured, bound| report.bar(&results, sinew, claim, measured, bound);
        bar("mutex, at least 0.95 of the ideal", relative, Bound::AtLeast(0.95));
        bar("mutex, turns of every loop in every second of all runs, at least 1", least, Bound::AtLeast(1.0));
        bar("mutex, most/fewest turns of a loop in all runs at most 5", spread, Bound::AtMost(5.0));
    }
}
