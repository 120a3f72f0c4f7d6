//! The runtime that all servers run on.
#![allow(unsafe_code)]

use clap::{Args, ValueEnum};
use sinew::{BuildError, Runtime};
use std::time::Duration;

/// What every server lets its user choose of the runtime.
#[derive(Args, Clone, Debug)]
pub struct RuntimeOptions {
    /// How many kernel threads run the sessions; as many as there are CPUs, if not given
    #[arg(short = 't', long = "threads", visible_alias = "processors", value_name = "NUM")]
    pub threads: Option<usize>,

    /// What decides which session runs next, and where
    #[arg(long, value_name = "NAME", default_value = "fair")]
    pub scheduler: SchedulerName,

    /// For so long a session whose client says nothing keeps its fibre
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, hide = true)]
    pub linger: Duration,
}

/// The longest time that can be waited: a century. Two of them may be added to the present.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A number of seconds that is not 0; parts of one are allowed.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let duration = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let is_allowed = |duration: &Duration| !duration.is_zero() && *duration <= LONGEST;
    duration.filter(is_allowed).ok_or_else(|| "a number of seconds above 0, a century at most".to_owned())
}

/// The schedulers there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchedulerName {
    /// Work stealing that also looks after neglected queues
    Fair,
    /// A counter of ready fibres, and processors that wait to be handed one
    Inverted,
    /// One queue for all
    Shared,
}

/// A runtime whose sessions migrate.
///
/// No session of a server may keep anything of its kernel thread across a call that
/// blocks: no `thread_local!`, no guard of `std::sync`, no identity of the thread. The
/// servers' own code uses none of these, and the libraries that they call between two
/// blocking calls keep nothing. Who adds a server keeps it so.
pub fn build(options: &RuntimeOptions) -> Result<Runtime, BuildError> {
    let builder = Runtime::builder();
    let builder = match options.threads {
        Some(threads) => builder.processors(threads),
        None => builder,
    };
    let builder = match options.scheduler {
        SchedulerName::Fair => builder.scheduler(sinew::sched::Fair::default()),
        SchedulerName::Inverted => builder.scheduler(sinew::sched::Inverted::default()),
        SchedulerName::Shared => builder.scheduler(sinew::sched::Shared::default()),
    };
    // SAFETY: the contract above is that of `migrating`.
    unsafe { builder.migrating() }.build()
}
