//! Sinew's events, under each way of stealing.

use sinew::sched::{Coloured, Heuristics, Meter, Stealing, Stolen};
use sinew::{Cluster, Runtime};

use super::DEFAULT;
use super::fibres::quiet;
use crate::case::{Case, Reading};

pub const COLOURED: &str = "sinew/coloured";
pub const OFF: &str = "sinew/coloured/off";
pub const BASE: &str = "sinew/coloured/base";
pub const TIME: &str = "sinew/coloured/time";

/// The peers of experiments on stealing. The first has the scheduler of `sinew::run`.
pub const ALL: [&str; 5] = [DEFAULT, COLOURED, OFF, BASE, TIME];

/// A runtime for events.
pub struct Events {
    runtime: Runtime,
    /// Counts the steals, if the scheduler does.
    meter: Option<Meter>,
}

impl Events {
    /// Returns a runtime with the scheduler that the case's peer names.
    pub fn new(case: &Case) -> Events {
        let stealing = match case.peer.as_str() {
            DEFAULT => None,
            COLOURED => Some(Stealing::default()),
            OFF => Some(Stealing::Off),
            BASE => Some(Stealing::Base),
            TIME => Some(Stealing::Improved(Heuristics { time_left: true, locality: false, penalty: false })),
            other => panic!("no events on {other}"),
        };
        let cluster = Cluster::builder().processors(case.processors);
        let (cluster, meter) = match stealing.map(Coloured::new) {
            Some(scheduler) => {
                let meter = scheduler.meter();
                (cluster.scheduler(scheduler), Some(meter))
            }
            None => (cluster, None),
        };
        Events { runtime: quiet(cluster).build().expect("a runtime"), meter }
    }

    /// Runs `root` as a fibre. It stays on the processor where it begins.
    pub fn run<R: Send>(self, root: impl FnOnce() -> R + Send) -> R {
        self.runtime.run(root)
    }

    /// Returns what reads the numbers of steals.
    pub fn thefts(&self) -> Thefts {
        Thefts { meter: self.meter.clone(), before: self.meter.as_ref().map(Meter::read).unwrap_or_default() }
    }
}

/// The steals since this was made.
pub struct Thefts {
    meter: Option<Meter>,
    before: Stolen,
}

impl Thefts {
    /// Adds what a steal brought in and cost in the mean, and the steals for each thousand events.
    pub fn read_into(&self, reading: &mut Reading, events: u64) {
        let Some(meter) = &self.meter else { return };
        let (before, now) = (&self.before, meter.read());
        let steals = (now.steals + now.rescues - before.steals - before.rescues) as f64;
        reading.set("steals", 1000.0 * steals / events as f64);
        if steals > 0.0 {
            reading.set("stolen_ns", (now.expected_ns - before.expected_ns) as f64 / steals);
            reading.set("steal_cost_ns", (now.spent_ns - before.spent_ns) as f64 / steals);
        }
    }
}
