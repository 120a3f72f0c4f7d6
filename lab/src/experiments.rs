//! The experiments, one file each. A file says what is measured, in which variants, what
//! is plotted and which bars there are, and has the body that every peer runs.
//!
//! A new experiment is a file here with a `pub static` [`Experiment`], and its
//! lines in the list below.

pub mod actors;
mod annotations;
mod batches;
mod blocking;
mod burst;
mod cache_efficient;
mod channel;
mod chat;
mod churn;
mod colours;
pub mod connections;
mod cycle;
mod efficiency;
mod files;
mod hyper;
mod idle;
mod latency;
mod locality;
mod memcached;
mod memory;
mod migrate;
mod mutex;
mod penalty;
mod placement;
mod pollers;
mod post;
mod reading;
mod scalability;
mod serving;
mod skew;
mod slow;
mod spawn;
mod timers;
mod transfer;
mod unbalanced;
mod uncontended;
mod utilisation;
mod waiters;
mod web;
mod yielding;

use std::io;
use std::time::Duration;

use crate::bars::Bar;
use crate::case::{Case, Outcome, Reading};
use crate::load::{ring, server};
use crate::peers::{Contender, Kind, language};

/// In the order of the report.
pub static ALL: &[&Experiment] = &[
    &yielding::YIELD,
    &cycle::CYCLE,
    &churn::CHURN,
    &locality::LOCALITY,
    &transfer::TRANSFER,
    &placement::PLACEMENT,
    &spawn::SPAWN,
    &burst::BURST,
    &memory::MEMORY,
    &uncontended::UNCONTENDED,
    &mutex::MUTEX,
    &channel::CHANNEL,
    &timers::TIMERS,
    &waiters::WAITERS,
    &idle::IDLE,
    &scalability::SCALABILITY,
    &efficiency::EFFICIENCY,
    &utilisation::UTILISATION,
    &migrate::MIGRATE,
    &skew::SKEW,
    &blocking::BLOCKING,
    &reading::READING,
    &post::POST,
    &colours::COLOURS,
    &unbalanced::UNBALANCED,
    &annotations::ANNOTATIONS,
    &penalty::PENALTY,
    &cache_efficient::CACHE_EFFICIENT,
    &actors::telling::TELL,
    &actors::asking::ASK,
    &actors::spawning::SPAWN_ACTORS,
    &actors::idle_actors::ACTORS,
    &actors::big::BIG,
    &actors::bang::BANG,
    &actors::logm::LOGM,
    &actors::apsp::APSP,
    &actors::cdict::CDICT,
    &actors::csll::CSLL,
    &actors::nqn::NQN,
    &actors::trapr::TRAPR,
    &actors::pubsub::PUBSUB,
    &web::WEB,
    &batches::BATCHES,
    &latency::LATENCY,
    &pollers::POLLERS,
    &connections::CONNECTIONS,
    &hyper::HYPER,
    &chat::CHAT,
    &files::FILES,
    &slow::SLOW,
    &memcached::MEMCACHED,
    &memcached::beside::BESIDE,
    &memcached::skew::SKEW,
    &memcached::memory::MEMORY,
];

pub struct Experiment {
    pub name: &'static str,
    /// The paper that it comes from, or Sinew.
    pub source: &'static str,
    /// What it measures, in a sentence.
    pub measures: &'static str,
    /// What a good result looks like, in a sentence.
    pub good: &'static str,
    /// The first is the one that counts.
    pub metrics: &'static [Metric],
    pub plots: &'static [Plot],
    /// The least number of processors with which it means anything.
    pub least_processors: usize,
    /// Figures that hardly vary need no more repeats than this.
    pub most_repeats: usize,
    /// The time after which a child is stopped, beyond the window.
    pub limit: fn(Depth) -> Duration,
    /// The noun of the variants, if they are numbers.
    pub unit: &'static str,
    /// Returns whether a peer takes part.
    pub concerns: fn(&Contender) -> bool,
    /// The part of the `sinew` command that stands for Sinew's peers.
    pub command: Option<&'static str>,
    /// Returns the variants for a number of processors and a peer.
    pub variants: fn(Depth, usize, &Contender) -> Vec<Variant>,
    /// Whether the child is pinned to one CPU for each processor of the case.
    pub is_pinned: bool,
    /// Runs in the child.
    pub measure: fn(&Case) -> Outcome,
    /// Runs in a process of its own, which the child starts and ends.
    pub serve: Option<fn(&Case) -> io::Result<()>>,
    /// Checks what must hold for a reading of this experiment; `check_all` checks the rest.
    pub check: fn(&Case, &Reading) -> Result<(), String>,
    /// Curves of the first metric that are computed.
    pub models: &'static [Model],
    /// The bars that Sinew's figures have to reach.
    pub bars: &'static [Bar],
    /// Returns why a peer cannot do it, if it cannot.
    pub cannot: fn(&Contender) -> Option<&'static str>,
    /// Returns why a peer may not complete, if that is known. The words follow a colon.
    pub incomplete: fn(&Contender) -> Option<&'static str>,
    /// Why other runtimes take no part. The words follow a colon.
    pub others: &'static str,
}

/// The defaults of an experiment.
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
    bars: &[],
    cannot: |_| None,
    incomplete: |_| None,
    others: "",
};

/// The number of variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Few variants: all experiments take two minutes.
    Tour,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub name: String,
    /// The number of strands.
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
    /// The words of a column's head.
    pub title: &'static str,
    /// A table shows the figure divided by this.
    pub scale: f64,
    pub better: Better,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    /// The metric explains another one, or varies too much to be compared.
    Neither,
}

impl Better {
    /// Returns the mark behind a metric's title.
    pub fn arrow(self) -> &'static str {
        match self {
            Better::Higher => " ↑",
            Better::Lower => " ↓",
            Better::Neither => "",
        }
    }
}

impl Metric {
    /// Returns the head of a column.
    pub fn head(&self) -> String {
        format!("{}{}", self.title, self.better.arrow())
    }

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

/// The way to draw a metric: one picture for each variant, or one for all if the variants are
/// the x axis.
pub enum Plot {
    /// A bar for each peer, in groups by the number of processors.
    Bars { metric: &'static str },
    /// As `Bars`, but over the slowest peer. Variants that are numbers have no picture.
    Normalised { metric: &'static str },
    /// A line for each peer over the variants, which are numbers, logarithmically.
    Lines { metric: &'static str },
    /// Times over quantiles, from the metrics of [`crate::measure::latency`].
    Quantiles,
    /// Letter values: boxes of times for each peer, from the same metrics, with a metric as a mark
    /// beside them.
    Letters { beside: &'static str },
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

    /// Returns why this peer cannot be measured here, if it cannot.
    pub fn refusal(&self, peer: &Contender) -> Option<&'static str> {
        match self.inability(peer) {
            Some(why) => Some(why),
            _ if !peer.is_installed() => Some("not installed"),
            _ if peer.needs_ring() && !ring::is_permitted() => Some("the kernel does not permit io_uring"),
            _ => self.command_of(peer).and_then(|server| server::sinew_command(server).err()),
        }
    }

    /// Returns why this peer cannot do it on any machine, if it cannot.
    pub fn inability(&self, peer: &Contender) -> Option<&'static str> {
        match (self.cannot)(peer) {
            Some(why) => Some(why),
            _ => language::find(peer.name).filter(|own| !own.knows(self.name)).map(|own| own.unwritten),
        }
    }

    /// Returns the part of the `sinew` command that this peer is measured by, if there is one.
    fn command_of(&self, peer: &Contender) -> Option<&'static str> {
        match peer.kind {
            Kind::Command(server) => Some(server),
            Kind::Inside => self.command,
            Kind::Server if peer.family() == "sinew" => self.command,
            _ => None,
        }
    }

    /// Checks that a reading is possible.
    ///
    /// # Errors
    /// Says what is wrong.
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
        // No operation that is counted takes less than half a nanosecond.
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

/// The number of strands for each processor that keeps it busy.
const MANY: usize = 100;
