//! The command line.

use super::Entry;
use super::case::{Contender, Scheduler};

const OPTIONS: &str = "\
options
  --quick                                    shorter windows, 3 repeats
  --repeat N                                 repeats of each measurement (5)
  --scheduler fair|inverted|shared|all       Sinew's scheduler (fair)
  --peers epoll,tokio,may,threads            whom to compare with (all); `none` for nobody
  --seconds N                                how long a server is under load (5)";

/// What the command line of a program may say.
pub fn usage(program: &str, experiments: &[Entry]) -> String {
    let longest = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    let lines = experiments.iter().map(|e| format!("  {:<width$}{}\n", e.name, e.summary, width = longest + 3));
    format!(
        "cargo bench -p sinew --bench {program} -- [experiment ...] [options]\n\n\
         experiments (default: all)\n{}\n{OPTIONS}",
        lines.collect::<String>()
    )
}

pub struct Options {
    /// Empty: all.
    experiments: Vec<String>,
    pub quick: bool,
    pub repeats: usize,
    pub schedulers: Vec<Scheduler>,
    pub peers: Vec<Contender>,
    pub seconds: Option<u64>,
}

impl Options {
    pub fn parse(arguments: &[String], known: &[Entry]) -> Result<Options, String> {
        let mut options = Options {
            experiments: Vec::new(),
            quick: false,
            repeats: 0,
            schedulers: vec![Scheduler::Fair],
            peers: Contender::ALL_PEERS.to_vec(),
            seconds: None,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            let mut value =
                || inline.or_else(|| rest.next().map(String::as_str)).ok_or_else(|| format!("{name} needs a value"));
            match name {
                "--quick" => options.quick = true,
                "--repeat" => options.repeats = parse_above_zero(name, value()?)?,
                "--seconds" => options.seconds = Some(parse_above_zero(name, value()?)? as u64),
                "--scheduler" => options.schedulers = parse_schedulers(value()?)?,
                "--peers" => options.peers = parse_peers(value()?)?,
                name if known.iter().any(|e| e.name == name) => options.experiments.push(name.to_owned()),
                _ => return Err(format!("unknown argument: {argument}")),
            }
        }
        if options.repeats == 0 {
            options.repeats = if options.quick { 3 } else { 5 };
        }
        Ok(options)
    }

    pub fn includes(&self, experiment: &str) -> bool {
        self.experiments.is_empty() || self.experiments.iter().any(|e| e == experiment)
    }

    /// Sinew's schedulers, then those of `eligible` that the command line lets in.
    pub fn contenders(&self, eligible: &[Contender]) -> Vec<Contender> {
        let sinew = self.schedulers.iter().map(|&s| Contender::Sinew(s));
        let peers = self.peers.iter().copied().filter(|p| eligible.contains(p));
        sinew.chain(peers).collect()
    }

    /// How long a server is under load, in milliseconds.
    pub fn load_ms(&self) -> u64 {
        self.seconds.unwrap_or(if self.quick { 1 } else { 5 }) * 1000
    }

    /// The window of a throughput measurement in milliseconds.
    pub fn window_ms(&self) -> u64 {
        if self.quick { 300 } else { 1000 }
    }
}

fn parse_above_zero(name: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{name} {value}: a number above 0 is needed")),
    }
}

fn parse_schedulers(value: &str) -> Result<Vec<Scheduler>, String> {
    if value == "all" {
        return Ok(Scheduler::ALL.to_vec());
    }
    value
        .split(',')
        .map(|name| Scheduler::from_name(name).ok_or_else(|| format!("unknown scheduler: {name}")))
        .collect()
}

fn parse_peers(value: &str) -> Result<Vec<Contender>, String> {
    value
        .split(',')
        .filter(|name| !name.is_empty() && *name != "none")
        .map(|name| match Contender::from_name(name) {
            Some(peer) if !peer.is_sinew() => Ok(peer),
            _ => Err(format!("unknown peer: {name}")),
        })
        .collect()
}
