//! The runtime that all servers run on.
#![allow(unsafe_code)]

use clap::{Args, ValueEnum};
use sinew::io::Engine;
use sinew::sched::{Coloured, Fair, Inverted, Shared, Stealing};
use sinew::{BuildError, Builder, Runtime};
use std::time::Duration;

/// The options of the runtime, the same in every server.
#[derive(Args, Clone, Debug)]
pub struct RuntimeOptions {
    /// Number of kernel threads that run the sessions; by default one for each CPU
    #[arg(short = 't', long = "threads", visible_alias = "processors", value_name = "NUM")]
    pub threads: Option<usize>,

    /// Scheduler: decides which session runs next, and where
    /// [default: fair; coloured for events]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<SchedulerName>,

    /// I/O: decides whether sessions use io_uring beside epoll. The environment variable SINEW_IO
    /// overrules this option
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub io: EngineName,

    /// Keep each session on the kernel thread that began it, as Sinew's runtimes do by default.
    /// Without this option, sessions migrate
    #[arg(long)]
    pub no_migration: bool,

    /// Time after which a session with a silent client gives up its fibre
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, hide = true)]
    pub linger: Duration,
}

/// The longest time that an option may name: a century. Adding two of them to the present does not
/// overflow.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Parses a number of seconds that is not 0. Fractions are allowed.
///
/// # Errors
/// The text is not such a number, or names more than a century.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let duration = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let is_allowed = |duration: &Duration| !duration.is_zero() && *duration <= LONGEST;
    duration.filter(is_allowed).ok_or_else(|| "a number of seconds above 0, a century at most".to_owned())
}

/// The schedulers that a user may choose.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchedulerName {
    /// Work stealing that also looks after neglected queues
    Fair,
    /// A counter of ready fibres, and processors that wait to be handed one
    Inverted,
    /// One queue for all
    Shared,
    /// Stealing by the expected time of events, as in Mely
    Coloured,
}

/// The ways of I/O that a user may choose.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EngineName {
    /// io_uring for what it makes faster, if the kernel permits it
    Auto,
    /// Only epoll, and a pool of threads for files
    Epoll,
    /// io_uring for all that it can do, if the kernel permits it
    Ring,
}

impl From<EngineName> for Engine {
    fn from(name: EngineName) -> Engine {
        match name {
            EngineName::Auto => Engine::Auto,
            EngineName::Epoll => Engine::Epoll,
            EngineName::Ring => Engine::Ring,
        }
    }
}

/// The style of a server.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// A fibre for each session.
    Fibres,
    /// Events with colours. With `stealing`, a processor without work takes colours from others.
    Events { stealing: bool },
}

/// Builds a runtime whose sessions migrate, unless an option keeps them where they began. Sessions
/// that migrate share out the CPUs even if the busy clients came to the same kernel thread.
///
/// A session must not keep anything of its kernel thread across a call that blocks: no
/// `thread_local!`, no guard of `std::sync`, no identity of the thread. The servers' own code uses
/// none of these. The libraries that they call between two blocking calls keep nothing. Every new
/// server has to hold to this.
///
/// # Errors
/// The runtime cannot be built.
pub fn build(options: &RuntimeOptions, style: Style) -> Result<Runtime, BuildError> {
    // The servers leave calls that block to the pool. A spare processor would take memory when there is
    // none, because calls run in place then.
    let builder = Runtime::builder().spares(0).io(options.io.into());
    let builder = match options.threads {
        Some(threads) => builder.processors(threads),
        None => builder,
    };
    let builder = schedule(builder, options.scheduler, style);
    if options.no_migration {
        return builder.build();
    }
    // SAFETY: the sessions keep the contract of `migrating`, as said above.
    unsafe { builder.migrating() }.build()
}

/// Chooses the scheduler. Events are scheduled by one that knows colours, unless the user names another one.
fn schedule(builder: Builder, name: Option<SchedulerName>, style: Style) -> Builder {
    match (name, style) {
        (Some(SchedulerName::Fair), _) | (None, Style::Fibres) => builder.scheduler(Fair::default()),
        (Some(SchedulerName::Inverted), _) => builder.scheduler(Inverted::default()),
        (Some(SchedulerName::Shared), _) => builder.scheduler(Shared::default()),
        (_, Style::Events { stealing: false }) => builder.scheduler(Coloured::new(Stealing::Off)),
        (_, _) => builder.scheduler(Coloured::default()),
    }
}
