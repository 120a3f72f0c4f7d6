//! `cache-efficient`: a merge sort of many small arrays, which begin on half of the processors.
//!
//! After Gaud et al. (Mely), 5.2. 100 events A for each processor that begins. Each allocates an
//! array that fits into its cache and posts two events B of different colours, which sort its
//! halves. Each B posts an event C of A's colour. The second C merges the halves. The next
//! round begins when all arrays are done.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinew::event::{Colour, Handler};
use sinew::{Fibre, spawn};

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::measure::countdown::Countdown;
use crate::measure::random::Random;
use crate::measure::slices::Slices;
use crate::peers::events::{self, BASE, COLOURED, Events, OFF};

/// The arrays of a processor that begins.
const ARRAYS: usize = 100;
/// The numbers of an array: 16 KiB, half of a level 1 cache.
const NUMBERS: usize = 4096;
/// One A, two B and two C.
const EVENTS_EACH: usize = 5;

pub static CACHE_EFFICIENT: Experiment = Experiment {
    name: "cache-efficient",
    source: "Gaud et al. 2010 (Mely), 5.2",
    measures: "Events per second of a merge sort: half of the processors begin with 100 arrays of 16 KiB each. For each array, two events of different colours sort its halves, and a last one merges them.",
    good: "On two processors, 1.5 times the rate without stealing. Near and far caches make a difference on larger machines only.",
    metrics: &[
        Metric::higher("ops_per_s", "thousand events/s", 1e3),
        Metric::beside("steals", "steals for 1000 events", 1.0),
        Metric::beside("stolen_ns", "ns of work in a steal", 1.0),
        Metric::beside("steal_cost_ns", "ns that a steal takes", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    least_processors: 2,
    limit: |_| Duration::from_secs(20),
    concerns: |peer| events::ALL.contains(&peer.name),
    others: "they have no colours",
    variants: |_, processors, _| vec![Variant::new("-", ARRAYS * (processors / 2).max(1))],
    measure,
    bars: &[
        Bar::of(COLOURED, "-", 2).at_least(1.5).over_peers(&[OFF]),
        Bar::of(COLOURED, "-", 2).at_least(0.95).over_peers(&[BASE]),
    ],
    ..PLAIN
};

/// The part that all events share. It lives as long as the process.
struct Shared {
    /// The numbers that each array is a copy of.
    unsorted: Vec<u32>,
    countdown: Countdown,
    waiter: Fibre,
}

/// An array on its way.
struct Array {
    shared: &'static Shared,
    number: u32,
    colour: Colour,
    /// The half that was sorted first.
    first: Mutex<Option<Vec<u32>>>,
}

/// A half of an array, and what it belongs to.
struct Half {
    numbers: Vec<u32>,
    array: Arc<Array>,
}

static A: Handler<Array> = Handler::new("A", begin).takes_us(2);
static B: Handler<Half> = Handler::new("B", sort).takes_us(20);
static C: Handler<Half> = Handler::new("C", merge).takes_us(5);

fn begin(array: Array) {
    let (shared, array) = (array.shared, Arc::new(array));
    for half in shared.unsorted.chunks(NUMBERS / 2) {
        let half = Half { numbers: half.to_vec(), array: array.clone() };
        B.post(&Colour::new(), half).unwrap_or_else(|_| panic!("an open colour"));
    }
}

fn sort(mut half: Half) {
    half.numbers.sort_unstable();
    let colour = half.array.colour.clone();
    C.post(&colour, half).unwrap_or_else(|_| panic!("an open colour"));
}

fn merge(half: Half) {
    let Half { numbers, array } = half;
    let mut first = array.first.lock().expect("no poison");
    match first.take() {
        None => *first = Some(numbers),
        Some(other) => {
            let merged = merged(&numbers, &other);
            assert!(merged.len() == NUMBERS && merged[0] <= merged[NUMBERS - 1]);
            if array.shared.countdown.done(array.number as usize) {
                array.shared.waiter.unpark();
            }
        }
    }
}

fn merged(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        merged.extend(if x <= y { a.next() } else { b.next() });
    }
    merged.extend(a.chain(b));
    merged
}

fn measure(case: &Case) -> Outcome {
    let (arrays, window) = (case.threads, case.window());
    let runtime = Events::new(case);
    let thefts = runtime.thefts();
    let (slices, rounds) = runtime.run(move || {
        let mut random = Random::of(0);
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            unsorted: (0..NUMBERS).map(|_| random.below(1 << 30) as u32).collect(),
            countdown: Countdown::new(arrays),
            waiter: sinew::current(),
        }));
        let post = move |first: usize| {
            for number in first..first + ARRAYS {
                let (colour, first) = (Colour::new(), Mutex::default());
                let array = Array { shared, number: number as u32, colour: colour.clone(), first };
                A.post(&colour, array).unwrap_or_else(|_| panic!("an open colour"));
            }
        };
        let (mut slices, mut rounds) = (Slices::new(window), 0);
        while !slices.is_over() {
            shared.countdown.begin();
            let begun = Instant::now();
            // A new fibre begins where the fewest live: on a processor without one.
            let others: Vec<_> = (1..arrays / ARRAYS).map(|part| spawn(move || post(part * ARRAYS))).collect();
            post(0);
            others.into_iter().for_each(|other| other.join().expect("posts"));
            while !shared.countdown.is_over() {
                sinew::park();
            }
            slices.note(begun.elapsed(), arrays * EVENTS_EACH);
            rounds += 1;
        }
        (slices, rounds)
    });
    let mut reading = Reading::of([("ops_per_s", 1e9 / slices.median_ns())]);
    thefts.read_into(&mut reading, (rounds * arrays * EVENTS_EACH) as u64);
    Outcome::Measured(reading)
}

#[cfg(test)]
mod tests {
    use super::merged;

    #[test]
    fn sorted_halves_become_a_sorted_whole() {
        assert_eq!(merged(&[1, 4, 5], &[2, 3, 6, 7]), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(merged(&[], &[1]), [1]);
    }
}
