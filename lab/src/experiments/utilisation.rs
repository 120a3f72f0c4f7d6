//! `utilisation`: the number of cores that T loops over L locks keep busy, measured, and
//! computed by two models.
//!
//! As in the thesis, there is one lock for two processors. The limit of the locks,
//! L (t_cs + t_ncs) / t_cs, is then the number of processors when a loop is as long
//! inside of a lock as outside. The models know neither the number of processors nor any
//! cost. Their curves are cut off at the number of processors.

use std::time::Duration;

use super::{Depth, Experiment, Metric, Model, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::loops::{Plan, run};
use crate::peers::{self, Body, Peer};

const WORK: Duration = Duration::from_micros(10);

pub static UTILISATION: Experiment = Experiment {
    name: "utilisation",
    source: "Barghi's thesis, chapter 6",
    measures: "The number of cores that a growing number of loops keeps busy, beside the figures of two models of lock contention. There is one lock for two processors, and a loop takes 10 µs outside and 10 µs inside of it.",
    good: "The measured curve has the models' shape and comes close to them: what is missing is the cost of locks and switches, which the models do not know.",
    metrics: &[Metric::higher("cores", "cores kept busy", 1.0)],
    plots: &[Plot::Lines { metric: "cores" }],
    unit: "loops",
    variants: |depth, processors, _| {
        let sweep: &[usize] = match depth {
            Depth::Tour => &[1, 2, 4, 16],
            Depth::Full => &[1, 2, 3, 4, 6, 8, 16, 32, 64],
        };
        let most = 32 * processors;
        sweep.iter().filter(|&&loops| loops <= most).map(|&loops| Variant::new(loops, loops)).collect()
    },
    measure: peers::measure::<Utilisation>,
    check: |case, reading| match reading.get("cores") {
        Some(cores) if cores <= 1.5 * case.processors as f64 => Ok(()),
        cores => Err(format!("{cores:?} of {} cores", case.processors)),
    },
    models: &[
        Model { name: "model/probabilistic", value: |case| cut_off(case, probabilistic) },
        Model { name: "model/queueing", value: |case| cut_off(case, queueing) },
    ],
    ..PLAIN
};

fn locks(case: &Case) -> usize {
    (case.processors / 2).max(1)
}

/// A model: computes cores from threads, locks, and the time inside and outside of them.
type Formula = fn(usize, usize, f64, f64) -> f64;

fn cut_off(case: &Case, model: Formula) -> f64 {
    let time = WORK.as_secs_f64();
    model(case.threads, locks(case), time, time).min(case.processors as f64)
}

/// Returns the cores that T threads use, by the extension of Amdahl's law to critical
/// sections: the time of an iteration is that of the longer of two estimates, one
/// for an average thread and one for the thread that meets contention at every
/// critical section.
fn probabilistic(threads: usize, locks: usize, inside: f64, outside: f64) -> f64 {
    let many = threads as f64;
    let contention = if threads == 1 { 0.0 } else { 1.0 / locks as f64 };
    let critical = inside / (inside + outside);
    let average = inside * critical * contention + (inside * (1.0 - critical * contention) + outside) / many;
    let slowest = inside * contention + (inside * (1.0 - contention) + outside) / (2.0 * many);
    (inside + outside) / average.max(slowest)
}

/// The same by mean value analysis of a closed queueing network: T customers
/// who go from a delay centre, the work outside, to one of L single servers, the
/// locks, and back.
fn queueing(threads: usize, locks: usize, inside: f64, outside: f64) -> f64 {
    let share = 1.0 / locks as f64;
    let mut waiting_at_each = 0.0;
    let mut throughput = 0.0;
    for customers in 1..=threads {
        let at_lock = inside * (1.0 + waiting_at_each);
        throughput = customers as f64 / (outside + at_lock);
        waiting_at_each = throughput * share * at_lock;
    }
    throughput * (inside + outside)
}

struct Utilisation;

impl Body for Utilisation {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let turns = run(peer, case, Plan { locks: locks(case), work: WORK, policy: String::new() });
        Reading::of([("cores", turns.cores())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODELS: [Formula; 2] = [probabilistic, queueing];

    #[test]
    fn one_thread_uses_one_core() {
        for model in MODELS {
            assert!((model(1, 16, 1.0, 1.0) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_limit_is_that_of_the_thesis() {
        for model in MODELS {
            let cores = model(100_000, 16, 1.0, 1.0);
            assert!((cores - 32.0).abs() < 0.05, "{cores}");
        }
    }

    #[test]
    fn more_threads_never_use_less() {
        for model in MODELS {
            let cores: Vec<f64> = (2..200).map(|threads| model(threads, 16, 1.0, 1.0)).collect();
            assert!(cores.is_sorted(), "{cores:?}");
        }
    }

    /// Two customers, one server, equal times: worked out by hand. The first step
    /// leaves half a customer at the server; the second one takes 1.5 there.
    #[test]
    fn mean_value_analysis_of_two_customers() {
        assert!((queueing(2, 1, 1.0, 1.0) - 2.0 / 2.5 * 2.0).abs() < 1e-9);
    }
}
