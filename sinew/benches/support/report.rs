//! What the parent prints: a table per configuration, then the bars.

use std::fs;
use std::time::{Duration, Instant};

use super::case::{Case, Contender};
use super::child::{self, Outcome, Running, Series};
use super::options::Options;

/// The smallest, the middle and the largest of some figures.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let half = figures.len() / 2;
        let median = match figures.len() % 2 {
            1 => figures[half],
            _ => (figures[half - 1] + figures[half]) / 2.0,
        };
        Some(Spread { median, min, max })
    }
}

/// All that one experiment measured.
pub struct Results(Vec<Series>);

impl Results {
    /// The median of a figure, NaN where it was not measured; arithmetic with
    /// it stays NaN, and [`Report::bar`] says so.
    pub fn median(&self, figure: &str, who: Contender, processors: usize, variant: &str) -> f64 {
        self.spread(figure, who, processors, variant).map_or(f64::NAN, |s| s.median)
    }

    /// The smallest of a figure, NaN where it was not measured.
    pub fn min(&self, figure: &str, who: Contender, processors: usize, variant: &str) -> f64 {
        self.spread(figure, who, processors, variant).map_or(f64::NAN, |s| s.min)
    }

    /// The largest of a figure, NaN where it was not measured.
    pub fn max(&self, figure: &str, who: Contender, processors: usize, variant: &str) -> f64 {
        self.spread(figure, who, processors, variant).map_or(f64::NAN, |s| s.max)
    }

    fn spread(&self, figure: &str, who: Contender, processors: usize, variant: &str) -> Option<Spread> {
        let series = self
            .0
            .iter()
            .find(|s| s.case.contender == who && s.case.processors == processors && s.case.variant == variant)?;
        match series.trouble() {
            None => Spread::of(series.figures(figure)),
            Some(_) => None,
        }
    }

    /// Sinew's schedulers among the contenders.
    pub fn sinews(&self) -> Vec<Contender> {
        let mut found: Vec<Contender> = Vec::new();
        for contender in self.0.iter().map(|s| s.case.contender) {
            if contender.is_sinew() && !found.contains(&contender) {
                found.push(contender);
            }
        }
        found
    }

    fn in_trouble(&self, who: Contender) -> bool {
        self.0.iter().any(|s| s.case.contender == who && s.trouble().is_some())
    }
}

/// A figure as a table shows it.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    pub figure: &'a str,
    /// What the figure is divided by.
    pub unit: f64,
}

#[derive(Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Bound {
    fn holds(self, measured: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
            Bound::Below(bound) => measured < bound,
        }
    }
}

pub struct Report {
    begun: Instant,
    met: usize,
    missed: Vec<String>,
    unmeasured: usize,
}

impl Report {
    pub fn begin(options: &Options) -> Report {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(0, |n| n.get());
        println!(
            "{cpus} CPUs, Linux {}, load {}, {} repeats{}{}",
            kernel.trim(),
            load.split_whitespace().next().unwrap_or("unknown"),
            options.repeats,
            if options.quick { ", quick" } else { "" },
            if child::taskset_exists() {
                ", children pinned with taskset"
            } else {
                ", children not pinned: taskset is missing"
            },
        );
        Report { begun: Instant::now(), met: 0, missed: Vec::new(), unmeasured: 0 }
    }

    /// Measures the cases in turns, each child under the limit.
    pub fn measure(&self, cases: Vec<Case>, repeats: usize, limit: Duration) -> Results {
        self.measure_with(cases, repeats, |case| Running::start(case, limit).finish())
    }

    /// Measures the cases in turns by a procedure of the experiment's own.
    pub fn measure_with(&self, cases: Vec<Case>, repeats: usize, measure: impl Fn(&Case) -> Outcome) -> Results {
        Results(child::interleave(cases, repeats, measure))
    }

    pub fn heading(&self, text: &str) {
        println!("\n== {text}");
    }

    /// One row for each selected case: median, min, max, and how Sinew's median
    /// (the first of its rows) compares with it. A contender that is there more
    /// than once is named with its variant.
    pub fn table(&self, title: &str, results: &Results, select: impl Fn(&Case) -> bool, column: Column) {
        let selected = || results.0.iter().filter(|s| select(&s.case));
        let sinew = selected()
            .find(|s| s.case.contender.is_sinew() && s.trouble().is_none())
            .and_then(|s| Spread::of(s.figures(column.figure)));

        println!("\n{title}");
        let label = |series: &Series| {
            let who = series.case.contender;
            match selected().filter(|s| s.case.contender == who).count() {
                1 => who.to_string(),
                _ => format!("{who} {}", series.case.variant),
            }
        };
        let width = selected().map(|s| label(s).len() + 1).max().unwrap_or(0).max(16);
        println!("  {:<width$}{:>12}{:>12}{:>12}{:>14}", "", "median", "min", "max", "sinew/this");
        for series in selected() {
            let spread = Spread::of(series.figures(column.figure));
            let figures = match spread {
                Some(s) => {
                    let ratio = sinew.map_or(f64::NAN, |sinew| sinew.median / s.median);
                    format!(
                        "{:>12}{:>12}{:>12}{:>14}",
                        figure(s.median / column.unit),
                        figure(s.min / column.unit),
                        figure(s.max / column.unit),
                        figure(ratio),
                    )
                }
                None => String::new(),
            };
            let trouble = match series.trouble() {
                Some(Outcome::DidNotComplete) => "  did not complete".to_owned(),
                Some(Outcome::Failed(how)) => format!("  failed: {how}"),
                _ => String::new(),
            };
            println!("  {:<width$}{figures}{trouble}", label(series));
        }
    }

    /// Holds a claim of a Sinew scheduler against what was measured.
    pub fn bar(&mut self, results: &Results, sinew: Contender, claim: &str, measured: f64, bound: Bound) {
        let said = format!("{sinew}: {claim}, measured {}", figure(measured));
        let verdict = if bound.holds(measured) {
            self.met += 1;
            "met"
        } else if measured.is_nan() && !results.in_trouble(sinew) {
            self.unmeasured += 1;
            "not measured"
        } else {
            self.missed.push(said.clone());
            "missed"
        };
        println!("bar: {said}: {verdict}");
    }

    pub fn end(self) {
        println!(
            "\n{} bars met, {} missed, {} not measured; {} s",
            self.met,
            self.missed.len(),
            self.unmeasured,
            self.begun.elapsed().as_secs(),
        );
        for missed in self.missed {
            println!("missed: {missed}");
        }
    }
}

/// Three significant digits or so.
fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "-".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
