//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::experiments::{self, Depth, Experiment};
use crate::manual::Manual;
use crate::names::nearest;
use crate::peers::{self, Contender};
use crate::run::plan::Wish;

/// Runs the papers' experiments on Sinew and its peers, and draws a report.
///
/// Without a command: a quick tour of about two minutes. It prints tables and writes
/// lab-report/index.html.
#[derive(Parser)]
#[command(name = "sinew-lab", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub tour: Output,
}

#[derive(Subcommand)]
pub enum Command {
    /// List the experiments and the peers
    List,
    /// Run some experiments in full
    Run(Run),
    /// Say which figures became slower, beyond the noise, from one file of results to another
    ///
    /// Exits with 1 if a figure of Sinew's became slower.
    Compare {
        /// Results of `run --json` or of a tour
        old: PathBuf,
        /// Later results of the same machine
        new: PathBuf,
    },
    #[command(flatten)]
    Manual(Manual),
    /// One measurement, in this process
    #[command(hide = true)]
    Measure { parent: u32, case: String },
    /// The server of a measurement, in this process
    #[command(hide = true)]
    Serve { parent: u32, case: String },
}

#[derive(Args)]
pub struct Run {
    /// Names from `list`, or `all`
    #[arg(required = true, value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Names from `list`; `sinew` means all of Sinew's peers. The default is all peers
    #[arg(long, value_delimiter = ',', value_name = "PEER")]
    pub peers: Vec<String>,
    /// Number of processors, or several numbers to compare
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub processors: Vec<usize>,
    /// Length of each measurement in seconds
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Number of runs of each measurement. The measurements take turns
    #[arg(long, default_value_t = 5, value_name = "TIMES")]
    pub repeat: usize,
    /// Seconds, beyond three times its length, after which a measurement is stopped. Each experiment has its own default
    #[arg(long, value_name = "SECONDS")]
    pub limit: Option<f64>,
    /// Only the first variant of each experiment
    #[arg(long)]
    pub first_variant: bool,
    /// Only these variants, by the names in the tables and results
    #[arg(long, value_delimiter = ',', value_name = "VARIANT", conflicts_with = "first_variant")]
    pub variants: Vec<String>,
    /// Say which bars Sinew's figures meet. Exits with 1 if a bar is missed
    #[arg(long)]
    pub bars: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct Output {
    /// Where to write the results, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Where to write the report, index.html
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// The length of each measurement of the tour.
const TOUR_SECONDS: f64 = 0.1;
/// After this time the tour makes no second or third measurement.
const TOUR_BUDGET: Duration = Duration::from_secs(120);
const TOUR_REPEATS: usize = 3;
const MOST_SECONDS: f64 = 3600.0;

/// Returns the tour: on one processor, and on two if there are two CPUs.
pub fn tour(cpus: usize) -> Wish {
    Wish {
        depth: Depth::Tour,
        experiments: experiments::ALL.to_vec(),
        peers: peers::ALL.iter().filter(|peer| peer.in_tour).collect(),
        processors: (1..=cpus.clamp(1, 2)).collect(),
        seconds: TOUR_SECONDS,
        repeats: TOUR_REPEATS,
        budget: Some(TOUR_BUDGET),
        limit: None,
        only_first: false,
        variants: Vec::new(),
    }
}

impl Run {
    /// Returns the request of the caller.
    ///
    /// # Errors
    /// An option is wrong; the error says how.
    pub fn wish(&self, cpus: usize) -> Result<Wish, String> {
        let processors = match self.processors.as_slice() {
            [] => vec![cpus.clamp(1, 2)],
            asked => unique(asked),
        };
        if processors.contains(&0) {
            return Err("--processors: at least 1 is needed".to_owned());
        }
        if let Some(&many) = processors.iter().find(|&&processors| processors > 1024) {
            return Err(format!("--processors: {many} is more than the 1024 that a runtime can have"));
        }
        if self.repeat == 0 {
            return Err("--repeat: at least 1 measurement is needed".to_owned());
        }
        let limit = match self.limit {
            Some(limit) => Some(positive("--limit", limit)?),
            None => None,
        };
        let seconds = positive("--seconds", self.seconds)?.as_secs_f64();
        Ok(Wish {
            depth: Depth::Full,
            experiments: named_experiments(&self.experiments)?,
            peers: if self.peers.is_empty() { peers::ALL.iter().collect() } else { named_peers(&self.peers)? },
            processors,
            seconds,
            repeats: self.repeat,
            budget: None,
            limit,
            only_first: self.first_variant,
            variants: self.variants.clone(),
        })
    }
}

/// Returns each number once.
fn unique(asked: &[usize]) -> Vec<usize> {
    let is_first = |(place, processors): &(usize, &usize)| !asked[..*place].contains(processors);
    asked.iter().enumerate().filter(is_first).map(|(_, &processors)| processors).collect()
}

fn positive(option: &str, seconds: f64) -> Result<Duration, String> {
    if seconds > 0.0 && seconds <= MOST_SECONDS {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("{option}: {seconds} is not between 0 and {MOST_SECONDS}"))
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("no {what} is called '{name}': did you mean '{near}'?"),
        None => format!("no {what} is called '{name}': there are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

fn named_experiments(names: &[String]) -> Result<Vec<&'static Experiment>, String> {
    let known = experiments::ALL.iter().map(|experiment| experiment.name);
    named("experiment", names, experiments::ALL, |experiment, name| experiment.name == name, known)
}

fn named_peers(names: &[String]) -> Result<Vec<&'static Contender>, String> {
    let all: Vec<&Contender> = peers::ALL.iter().collect();
    let known = peers::ALL.iter().map(|peer| peer.name).chain(["sinew"]);
    named("peer", names, &all, |peer, name| peer.name == name || peer.family() == name, known)
}

/// Returns all that the names stand for, each once, in the order of the names.
///
/// # Errors
/// A name stands for nothing.
fn named<T>(
    what: &str,
    names: &[String],
    all: &[&'static T],
    is_called: fn(&T, &str) -> bool,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Result<Vec<&'static T>, String> {
    let mut found: Vec<&'static T> = Vec::new();
    for name in names {
        let matching: Vec<_> = all.iter().filter(|one| name == "all" || is_called(one, name)).collect();
        if matching.is_empty() {
            return Err(unknown(what, name, known));
        }
        for one in matching {
            if !found.iter().any(|other| std::ptr::eq(*other, *one)) {
                found.push(one);
            }
        }
    }
    Ok(found)
}
