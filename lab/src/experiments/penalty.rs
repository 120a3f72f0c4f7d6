//! `penalty`: stealing the wrong event of a chain moves its array to another cache.
//!
//! After Gaud et al. (Mely), 5.2. An event A fills an array of half the size of a level 2
//! cache. Then B events of the same colour walk through it, each through a part, and each
//! posts the next one. All A events are posted on one processor. A thief has to take A events:
//! a B event that is stolen finds the array in the cache of another CPU. The penalty of B is
//! 1000, as in the paper.
//!
//! - `few`: no more than two arrays for each processor are in progress. A new A is posted
//!   when an array is done. So the arrays of a processor stay in its cache.
//! - `all`: 64 A events are posted at once, as in the paper. A colour whose turn is over goes
//!   to the end of the queue. So a processor begins all its arrays before it has done any,
//!   and they leave its cache, whatever thieves do. When all have begun, there are only B
//!   events left to steal.
//!
//! The lines of a part are read in random order, each from the one before, so that every
//! line that is not in the cache is waited for.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sinew::event::{Colour, Handler};
use sinew::sync::Semaphore;

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::kernel::cpu_time;
use crate::measure::cache::level_2_bytes;
use crate::measure::random::Random;
use crate::peers::events::{self, BASE, COLOURED, Events};

const FEW: &str = "few";
const ALL: &str = "all";
/// The arrays in progress, for each processor and in all.
const FEW_ARRAYS: usize = 2;
const ALL_ARRAYS: usize = 64;
/// Words of a line, and lines that a B walks through: 0.2 µs if they are in the cache. An array of 512 KiB has
/// 256 such parts, so a colour has several turns: a turn has at most 64 events.
const LINE: usize = 8;
const PART: usize = 32;

pub static PENALTY: Experiment = Experiment {
    name: "penalty",
    source: "Gaud et al. 2010 (Mely), 5.2",
    measures: "Events per second if each colour fills an array of half a level 2 cache (event A) and then walks through it (many events B). All begin on one processor, at most two for each processor at a time (few), or 64 at once (all).",
    good: "1.3 times the rate of the base algorithm on two processors, and less than 5 % of the B events on another processor than their A: thieves take colours before their arrays are in a cache.",
    metrics: &[
        Metric::higher("ops_per_s", "thousand events/s", 1e3),
        Metric::lower("moved_percent", "B events that ran elsewhere than their A, %", 1.0),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("steals", "steals for 1000 events", 1.0),
        Metric::beside("stolen_ns", "ns of work in a steal", 1.0),
        Metric::beside("steal_cost_ns", "ns that a steal takes", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }, Plot::Bars { metric: "moved_percent" }],
    least_processors: 2,
    concerns: |peer| events::ALL.contains(&peer.name),
    others: "they have no colours",
    variants: |depth, processors, _| match depth {
        Depth::Tour => vec![Variant::new(FEW, FEW_ARRAYS * processors)],
        Depth::Full => vec![Variant::new(FEW, FEW_ARRAYS * processors), Variant::new(ALL, ALL_ARRAYS)],
    },
    measure,
    bars: &[
        Bar::of(COLOURED, FEW, 2).at_least(1.3).over_peers(&[BASE]),
        Bar::of(COLOURED, FEW, 2).metric("moved_percent").at_most(5.0),
    ],
    ..PLAIN
};

/// The part that all events share. It lives as long as the process.
struct Shared {
    /// A walk through a part: the line that follows each line.
    walk: Vec<u64>,
    /// The lines of an array.
    lines: usize,
    /// A permit for each array that may be begun.
    room: Semaphore,
    events: AtomicU64,
    walked: AtomicU64,
    moved: AtomicU64,
}

/// An array on its way.
struct Chain {
    shared: &'static Shared,
    colour: Colour,
    array: Vec<u64>,
    /// The next line.
    line: usize,
    /// The kernel thread that ran A, and the number of B events on others.
    home: usize,
    moved: u64,
}

/// The argument of an A.
struct Start {
    shared: &'static Shared,
    colour: Colour,
}

static A: Handler<Start> = Handler::new("A", fill).takes_us(20);
static B: Handler<Box<Chain>> = Handler::new("B", walk).penalty(1000);

thread_local! {
    /// Arrays that are done, for the next ones.
    static FREE: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
    static HERE: Cell<u8> = const { Cell::new(0) };
}

/// Returns a number that only the calling kernel thread has.
fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

fn fill(start: Start) {
    let Start { shared, colour } = start;
    let free = FREE.with(|free| free.borrow_mut().pop());
    let mut array = free.unwrap_or_else(|| vec![0; shared.lines * LINE]);
    for (part, words) in array.chunks_exact_mut(PART * LINE).enumerate() {
        let first = (part * PART) as u64;
        for (line, next) in words.chunks_exact_mut(LINE).zip(&shared.walk) {
            line[0] = first + next;
        }
    }
    let chain = Chain { shared, colour: colour.clone(), array, line: 0, home: here(), moved: 0 };
    B.post(&colour, Box::new(chain)).unwrap_or_else(|_| panic!("an open colour"));
}

fn walk(mut chain: Box<Chain>) {
    let mut at = chain.line as u64;
    for _ in 0..PART {
        at = chain.array[at as usize * LINE];
    }
    assert_eq!(at, chain.line as u64, "a walk ends where it began");
    chain.moved += u64::from(chain.home != here());
    chain.line += PART;
    if chain.line < chain.shared.lines {
        let colour = chain.colour.clone();
        B.post(&colour, chain).unwrap_or_else(|_| panic!("an open colour"));
        return;
    }
    let Chain { shared, array, moved, .. } = *chain;
    FREE.with(|free| free.borrow_mut().push(array));
    let parts = (shared.lines / PART) as u64;
    shared.walked.fetch_add(parts, Relaxed);
    shared.moved.fetch_add(moved, Relaxed);
    shared.events.fetch_add(parts + 1, Relaxed);
    shared.room.post(1);
}

/// Returns a random walk through all lines of a part, and back.
fn random_walk() -> Vec<u64> {
    let mut random = Random::of(0);
    let mut order: Vec<u64> = (0..PART as u64).collect();
    for place in (1..PART).rev() {
        order.swap(place, random.below(place + 1));
    }
    let mut walk = vec![0; PART];
    for (place, &line) in order.iter().enumerate() {
        walk[line as usize] = order[(place + 1) % PART];
    }
    walk
}

fn measure(case: &Case) -> Outcome {
    let (window, arrays) = (case.window(), case.threads);
    let lines = (level_2_bytes() / 2 / 64).next_multiple_of(PART);
    let runtime = Events::new(case);
    let thefts = runtime.thefts();
    let (shared, mut reading) = runtime.run(move || {
        let zero = || AtomicU64::new(0);
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            walk: random_walk(),
            lines,
            room: Semaphore::new(arrays),
            events: zero(),
            walked: zero(),
            moved: zero(),
        }));
        let start = || {
            let colour = Colour::new();
            A.post(&colour.clone(), Start { shared, colour }).unwrap_or_else(|_| panic!("an open colour"));
        };
        let acquire = || shared.room.wait();
        let step = || match case.variant.as_str() {
            FEW => {
                acquire();
                start();
            }
            _ => {
                (0..arrays).for_each(|_| acquire());
                (0..arrays).for_each(|_| start());
            }
        };
        let warm_up = Instant::now();
        while warm_up.elapsed() < Duration::from_millis(50).min(window) {
            step();
        }
        let count = || [&shared.events, &shared.walked, &shared.moved].map(|count| count.load(Relaxed) as f64);
        let (begun, used, before) = (Instant::now(), cpu_time(), count());
        while begun.elapsed() < window || count()[0] == before[0] {
            step();
        }
        let (elapsed, cpu, after) = (begun.elapsed(), cpu_time() - used, count());
        (0..arrays).for_each(|_| acquire());
        let [events, walked, moved] = [0, 1, 2].map(|place: usize| after[place] - before[place]);
        let reading = Reading::of([
            ("ops_per_s", events / elapsed.as_secs_f64()),
            ("moved_percent", 100.0 * moved / walked),
            ("cpu_ns_per_op", cpu.as_nanos() as f64 / events),
        ]);
        (shared, reading)
    });
    thefts.read_into(&mut reading, shared.events.load(Relaxed));
    Outcome::Measured(reading)
}
