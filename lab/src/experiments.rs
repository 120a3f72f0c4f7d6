//! The experiments: one file each, which says what is measured, in which
//! variants, what is plotted, and has the body that every peer runs.
//!
//! A new experiment is a file here with a `pub static` [`Experiment`], and its
//! lines in the list below.

mod blocking;
mod channel;
mod churn;
mod connections;
mod cycle;
mod efficiency;
mod files;
mod hyper;
mod idle;
mod locality;
mod memcached;
mod memory;
mod migrate;
mod mutex;
mod pollers;
mod scalability;
mod serving;
mod skew;
mod slow;
mod spawn;
mod timers;
mod transfer;
mod utilisation;
mod web;
mod yielding;

use std::io;
use std::time::Duration;

use crate::case::{Case, Outcome, Reading};
use crate::load::server;
use crate::peers::{Contender, Kind};

/// In the order of the report.
pub static ALL: &[&Experiment] = &[
    &yielding::YIELD,
    &cycle::CYCLE,
    &churn::CHURN,
    &locality::LOCALITY,
    &transfer::TRANSFER,
    &spawn::SPAWN,
    &memory::MEMORY,
    &mutex::MUTEX,
    &channel::CHANNEL,
    &timers::TIMERS,
    &idle::IDLE,
    &scalability::SCALABILITY,
    &efficiency::EFFICIENCY,
    &utilisation::UTILISATION,
    &migrate::MIGRATE,
    &skew::SKEW,
    &blocking::BLOCKING,
    &web::WEB,
    &pollers::POLLERS,
    &connections::CONNECTIONS,
    &hyper::HYPER,
    &files::FILES,
    &slow::SLOW,
    &memcached::MEMCACHED,
    &memcached::beside::BESIDE,
    &memcached::skew::SKEW,
    &memcached::memory::MEMORY,
];

pub struct Experiment {
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it measures, in a sentence.
    pub measures: &'static str,
    /// What a good result looks like, in a sentence.
    pub good: &'static str,
    /// The first is the one that counts.
    pub metrics: &'static [Metric],
    pub plots: &'static [Plot],
    /// With how many processors at least it means anything.
    pub least_processors: usize,
    /// Figures that hardly vary need no more repeats than this.
    pub most_repeats: usize,
    /// Beyond the window, how long a child may take before it is stopped.
    pub limit: fn(Depth) -> Duration,
    /// What the variants count, where they are numbers.
    pub unit: &'static str,
    /// Whether a peer has anything to do with it.
    pub concerns: fn(&Contender) -> bool,
    /// The part of the `sinew` command that stands for Sinew's peers.
    pub command: Option<&'static str>,
    /// What is varied, for so many processors and a peer.
    pub variants: fn(Depth, usize, &Contender) -> Vec<Variant>,
    /// Whether the child runs on as many CPUs as the case has processors.
    pub is_pinned: bool,
    /// Runs in the child.
    pub measure: fn(&Case) -> Outcome,
    /// Runs in a process of its own that the child starts, for as long as it needs it.
    pub serve: Option<fn(&Case) -> io::Result<()>>,
    /// Whether a reading is possible at all, beyond what holds for every one.
    pub check: fn(&Case, &Reading) -> Result<(), String>,
    /// Curves that are computed: what they are called, and for a case the value
    /// of the first metric.
    pub models: &'static [Model],
}

/// What most experiments have in common, to be completed.
pub const PLAIN: Experiment = Experiment {
    name: "",
    source: "",
    measures: "",
    good: "",
    metrics: &[],
    plots: &[],
    least_processors: 1,
    most_repeats: usize::MAX,
    limit: |_| Duration::from_secs(20),
    unit: "",
    concerns: Contender::is_runtime,
    command: None,
    variants: |_, _, _| vec![Variant::new("-", 1)],
    is_pinned: true,
    measure: |_| unreachable!("an experiment without a body"),
    serve: None,
    check: |_, _| Ok(()),
    models: &[],
};

/// How much is varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Two minutes for everything.
    Tour,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub name: String,
    /// How many strands that makes.
    pub threads: usize,
}

impl Variant {
    pub fn new(name: impl ToString, threads: usize) -> Variant {
        Variant { name: name.to_string(), threads }
    }
}

pub struct Metric {
    /// With its unit, as it stands in the JSON.
    pub name: &'static str,
    /// As a column says it.
    pub title: &'static str,
    /// What the figure is divided by for people.
    pub scale: f64,
    pub better: Better,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    /// Neither is: it explains another metric, or varies too much to be compared.
    Neither,
}

impl Metric {
    pub const fn higher(name: &'static str, title: &'static str, scale: f64) -> Metric {
        Metric { name, title, scale, better: Better::Higher }
    }

    pub const fn lower(name: &'static str, title: &'static str, scale: f64) -> Metric {
        Metric { name, title, scale, better: Better::Lower }
    }

    pub const fn beside(name: &'static str, title: &'static str, scale: f64) -> Metric {
        Metric { name, title, scale, better: Better::Neither }
    }
}

/// How a metric is drawn: one picture for each variant, or one for all of them
/// where they are the x axis.
pub enum Plot {
    /// A bar for each peer, in groups by the number of processors.
    Bars { metric: &'static str },
    /// A line for each peer over the variants, which are numbers, logarithmically.
    Lines { metric: &'static str },
    /// Times over quantiles, from the metrics of [`crate::measure::latency`].
    Quantiles,
}

pub struct Model {
    pub name: &'static str,
    pub value: fn(&Case) -> f64,
}

pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name == name)
}

impl Experiment {
    pub fn metric(&self, name: &str) -> Option<&'static Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Why this peer cannot do it, if it cannot.
    pub fn refusal(&self, peer: &Contender) -> Option<&'static str> {
        match () {
            _ if self.name == migrate::MIGRATE.name && !peer.has_clusters => Some("no clusters"),
            _ if peer.kind == Kind::Go && !crate::peers::go::knows(self.name) => Some("not written in Go"),
            _ if matches!(peer.kind, Kind::Program(_)) && !peer.is_installed() => Some("not installed"),
            _ => self.command_of(peer).and_then(|server| server::sinew_command(server).err()),
        }
    }

    /// The part of the `sinew` command that this peer is measured by, if it is.
    fn command_of(&self, peer: &Contender) -> Option<&'static str> {
        match peer.kind {
            Kind::Command(server) => Some(server),
            Kind::Inside => self.command,
            _ => None,
        }
    }

    /// What is wrong with a reading, if anything.
    pub fn check_all(&self, case: &Case, reading: &Reading) -> Result<(), String> {
        let first = self.metrics[0].name;
        if self.metrics.iter().all(|metric| reading.get(metric.name).is_none()) {
            return Err("nothing was measured".to_owned());
        }
        for (name, value) in reading.iter() {
            if value < 0.0 {
                return Err(format!("{name} is {value}"));
            }
            if self.metric(name).is_none() {
                return Err(format!("{name} is not a metric of {}", self.name));
            }
        }
        // No operation that anybody counts takes less than half a nanosecond.
        let most = 2e9 * case.processors as f64;
        match reading.get("ops_per_s") {
            Some(rate) if rate > most => return Err(format!("{rate} operations per second")),
            Some(rate) if rate + reading.get("void_per_s").unwrap_or(0.0) <= 0.0 => {
                return Err("nothing happened".to_owned());
            }
            None if first == "ops_per_s" => return Err("nothing was counted".to_owned()),
            _ => {}
        }
        (self.check)(case, reading)
    }
}

/// 100 strands for each processor: enough to keep them busy.
const MANY: usize = 100;
