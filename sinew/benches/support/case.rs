//! One measurement: which experiment, on what, with how many processors.

use std::fmt;
use std::time::Duration;

/// Sinew's schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    Fair,
    Inverted,
    Shared,
}

impl Scheduler {
    pub const ALL: [Scheduler; 3] = [Scheduler::Fair, Scheduler::Inverted, Scheduler::Shared];

    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Fair => "fair",
            Scheduler::Inverted => "inverted",
            Scheduler::Shared => "shared",
        }
    }

    pub fn from_name(name: &str) -> Option<Scheduler> {
        Scheduler::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// Who is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender {
    Sinew(Scheduler),
    Tokio,
    May,
    /// Kernel threads with stacks of 64 KiB.
    Threads,
    /// A loop around `epoll_wait` without any runtime: only for what has to do with
    /// sockets.
    Epoll,
}

impl Contender {
    /// The runtimes.
    pub const PEERS: [Contender; 3] = [Contender::Tokio, Contender::May, Contender::Threads];

    pub const ALL_PEERS: [Contender; 4] = [Contender::Epoll, Contender::Tokio, Contender::May, Contender::Threads];

    pub fn from_name(name: &str) -> Option<Contender> {
        match name.strip_prefix("sinew-") {
            Some(scheduler) => Scheduler::from_name(scheduler).map(Contender::Sinew),
            None => Contender::ALL_PEERS.into_iter().find(|p| p.to_string() == name),
        }
    }

    pub fn is_sinew(self) -> bool {
        matches!(self, Contender::Sinew(_))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Contender::Sinew(Scheduler::Fair) => "sinew-fair",
            Contender::Sinew(Scheduler::Inverted) => "sinew-inverted",
            Contender::Sinew(Scheduler::Shared) => "sinew-shared",
            Contender::Tokio => "tokio",
            Contender::May => "may",
            Contender::Threads => "threads",
            Contender::Epoll => "epoll",
        };
        f.pad(name)
    }
}

/// What one child process measures.
#[derive(Clone, Debug)]
pub struct Case {
    pub experiment: String,
    pub contender: Contender,
    pub processors: usize,
    /// The experiment's own word for what it varies, `-` where nothing varies.
    pub variant: String,
    /// How much to do: strands, transfers, or the window in milliseconds, as
    /// the experiment says.
    pub amount: u64,
}

impl Case {
    pub fn new(experiment: &str, contender: Contender, processors: usize, variant: &str, amount: u64) -> Case {
        Case { experiment: experiment.to_owned(), contender, processors, variant: variant.to_owned(), amount }
    }

    /// The amount as a length of time.
    pub fn window(&self) -> Duration {
        Duration::from_millis(self.amount)
    }

    pub fn to_arguments(&self) -> [String; 5] {
        [
            self.experiment.clone(),
            self.contender.to_string(),
            self.processors.to_string(),
            self.variant.clone(),
            self.amount.to_string(),
        ]
    }

    pub fn from_arguments(arguments: &[String]) -> Option<Case> {
        let [experiment, contender, processors, variant, amount] = arguments else {
            return None;
        };
        Some(Case::new(
            experiment,
            Contender::from_name(contender)?,
            processors.parse().ok()?,
            variant,
            amount.parse().ok()?,
        ))
    }
}
