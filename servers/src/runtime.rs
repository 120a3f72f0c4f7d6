//! The runtime that all servers run on.
#![allow(unsafe_code)]

use clap::{Args, ValueEnum};
use sinew::{BuildError, Runtime};

/// What every server lets its user choose of the runtime.
#[derive(Args, Clone, Debug)]
pub struct RuntimeOptions {
    /// How many kernel threads run the sessions; as many as there are CPUs, if not given
    #[arg(short = 't', long = "threads", visible_alias = "processors", value_name = "NUM")]
    pub threads: Option<usize>,

    /// What decides which session runs next, and where
    #[arg(long, value_name = "NAME", default_value = "fair")]
    pub scheduler: SchedulerName,
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
