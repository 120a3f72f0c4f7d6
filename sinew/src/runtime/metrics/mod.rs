//! Counters of a runtime: always on, and cheap to read.
//!
//! [`Runtime::metrics`] reads the numbers of a runtime, and [`Metrics::current`] those of the runtime that runs
//! the caller. A reading takes some microseconds. It does not walk fibres, so it takes the same time with a
//! million of them. [`Metrics::to_openmetrics`] is the text that Prometheus and others collect.
//!
//! ```
//! use sinew::metrics::Metrics;
//!
//! sinew::run(|| {
//!     let fibres: Vec<_> = (0..100).map(|_| sinew::spawn(sinew::park)).collect();
//!     while Metrics::current().unwrap().strands.stopped < 100 {
//!         sinew::yield_now();
//!     }
//!     let metrics = Metrics::current().unwrap();
//!     assert_eq!(metrics.strands.live, 101); // The first fibre runs.
//!     assert!(metrics.to_openmetrics().contains("sinew_strands{state=\"stopped\"} 100\n"));
//!     for fibre in fibres {
//!         fibre.fibre().unpark();
//!         fibre.join().unwrap();
//!     }
//! });
//! ```
//!
//! All counters count from the start of the runtime and only grow. Each processor counts for itself, and
//! nothing stops meanwhile. So a reading is not one moment: numbers of a busy runtime may differ by the few
//! strands that changed their state while it was taken. When all processors sleep, it is exact.

mod openmetrics;

use super::Runtime;
use crate::base::clock::{cycles, duration_of};
use crate::io::{Pollers, blocking_load};
use crate::processor::cluster::{Cluster, ClusterShared};
use crate::processor::{Post, RuntimeShared, WAIT_BUCKETS};
use crate::sched::ProcessorId;
use crate::stack::pool;
use std::time::Duration;

/// A reading of all that a runtime counts. See the [module](self).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// The strands of the runtime, by state.
    pub strands: Strands,
    /// The clusters of the runtime, in the order in which they were made.
    pub clusters: Vec<ClusterMetrics>,
    /// The strands that kernel threads, other runtimes and wakers have spawned.
    pub spawned_from_outside: u64,
    /// The stacks of the process. All runtimes share them.
    pub stacks: Stacks,
    /// The bytes that the process has set aside for records of strands: see
    /// [`memory::usage`](crate::memory::usage).
    pub record_bytes: u64,
    /// The pool for [blocking](crate::blocking) calls. All runtimes of the process share it.
    pub blocking: BlockingPool,
}

/// Strands by state. A strand is a fibre, a task, or an actor or colour that has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strands {
    /// Strands that have been spawned and have not finished: the sum of the other three.
    pub live: u64,
    /// Strands that wait for a processor.
    pub ready: u64,
    /// Strands that run.
    pub running: u64,
    /// Strands that wait for something else: they are parked, sleep, or wait for a lock, a message or a socket.
    pub stopped: u64,
}

/// The counters of a cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterMetrics {
    /// Its name.
    pub name: String,
    /// The processors that serve it, without spare ones.
    pub serving: usize,
    /// The spare processors that serve it at this moment.
    pub spares: usize,
    /// The timers that are armed.
    pub timers: usize,
    /// The stopped strands of this cluster that became ready elsewhere than on a processor of the runtime: a
    /// kernel thread or another runtime has woken them.
    pub wakeups_from_outside: u64,
    /// The work of its polling thread, if it has one ([`Polling::Thread`](crate::io::Polling::Thread)).
    pub polling_thread: Option<Looks>,
    /// The counters of each processor number that it has used. A number and its counters go on when another
    /// processor takes it.
    pub processors: Vec<ProcessorMetrics>,
}

/// The counters of a processor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessorMetrics {
    /// Its number.
    pub id: ProcessorId,
    /// Whether there is a processor with this number at this moment.
    pub has_thread: bool,
    /// Whether it has no strand to run.
    pub is_idle: bool,
    /// The fibres that live on it and may not leave.
    pub residents: u64,
    /// How often it has run a strand until that gave way, stopped or ended. A busy processor adds this and the next
    /// two up every 16 µs.
    pub dispatches: u64,
    /// The strands that stopped there.
    pub stops: u64,
    /// The stopped strands that became ready there: a strand, a timer or an event on this processor has woken
    /// them.
    pub wakeups: u64,
    /// The strands that strands on this processor have spawned. Actors and colours that became active count
    /// too.
    pub spawned: u64,
    /// The strands that finished there.
    pub finished: u64,
    /// The strands that it took from other processors because it had none, or fewer.
    pub steals: u64,
    /// The strands that it took from a queue that was neglected, or whose processor was held up or had left.
    pub rescues: u64,
    /// The fibres that were to begin there, and went to other processors because it was held up.
    pub relieved: u64,
    /// The searches for work while it lingered before a sleep.
    pub spins: u64,
    /// How often it has slept.
    pub sleeps: u64,
    /// Its looks for events.
    pub looks: Looks,
    /// For how long it has had no strand to run: it searched, lingered or slept.
    pub idle: Duration,
    /// How long strands waited from the moment when they became ready until they ran there.
    pub waits: Waits,
}

/// How often a thread has asked the kernel for events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Looks {
    /// The calls of the kernel.
    pub looks: u64,
    /// The events that they brought.
    pub events: u64,
}

/// A histogram of the times that ready strands waited for their processor.
///
/// A busy processor takes a sample every 16 µs, and one of the first strand after each idle time. A sample counts
/// for all dispatches up to the next one. So the counts add up to [`ProcessorMetrics::dispatches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    counts: [u64; WAIT_BUCKETS],
    sum: Duration,
}

/// The stacks of the process. Numbers may be wrong by 128 for each processor that has been busy for long: a processor
/// tells how many free stacks it keeps when it runs out of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stacks {
    /// The stacks that fibres have.
    pub in_use: u64,
    /// The free stacks: all others that have been made.
    pub pooled: u64,
    /// The addresses of all these stacks with their guards, in bytes. They take memory only for the pages that
    /// were used.
    pub carved_bytes: u64,
    /// The addresses that are reserved for stacks, in bytes. They take no memory.
    pub reserved_bytes: u64,
}

/// The pool of kernel threads for [blocking](crate::blocking) calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingPool {
    /// Its kernel threads.
    pub threads: u64,
    /// Those of them that have nothing to run.
    pub idle_threads: u64,
    /// The calls that wait for a thread.
    pub queued_calls: u64,
    /// For how long the first of these has waited.
    pub longest_queued: Duration,
}

impl Runtime {
    /// Reads what the runtime has counted. See [`metrics`](crate::metrics).
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.shared)
    }
}

impl Metrics {
    /// Reads what the runtime of the calling fibre or task has counted; `None` for any other caller.
    pub fn current() -> Option<Metrics> {
        // Out of the processor first: a lock that is held below must not delay it in the midst of a switch.
        let cluster = Cluster::current()?;
        Some(Metrics::of(cluster.shared().runtime()))
    }

    fn of(runtime: &RuntimeShared) -> Metrics {
        let clusters: Vec<_> = runtime.all_clusters().iter().map(|cluster| ClusterMetrics::of(cluster)).collect();
        let (stacks, blocking) = (pool::stock(), blocking_load());
        Metrics {
            strands: Strands::of(runtime.live(), &clusters),
            spawned_from_outside: runtime.spawned_outside(),
            clusters,
            stacks: Stacks {
                in_use: stacks.in_use as u64,
                pooled: stacks.pooled as u64,
                carved_bytes: stacks.carved_bytes as u64,
                reserved_bytes: stacks.reserved_bytes as u64,
            },
            record_bytes: pool::usage().record_bytes as u64,
            blocking: BlockingPool {
                threads: blocking.threads as u64,
                idle_threads: blocking.idle as u64,
                queued_calls: blocking.jobs as u64,
                longest_queued: blocking.longest,
            },
        }
    }

    /// Returns what is counted for each processor of each cluster.
    pub fn processors(&self) -> impl Iterator<Item = &ProcessorMetrics> {
        self.clusters.iter().flat_map(|cluster| &cluster.processors)
    }
}

impl Strands {
    /// Nobody counts ready strands. They are what is left.
    fn of(live: u64, clusters: &[ClusterMetrics]) -> Strands {
        let processors = || clusters.iter().flat_map(|cluster| &cluster.processors);
        let stops: u64 = processors().map(|processor| processor.stops).sum();
        let wakeups: u64 = processors().map(|processor| processor.wakeups).sum();
        let from_outside: u64 = clusters.iter().map(|cluster| cluster.wakeups_from_outside).sum();
        let stopped = stops.saturating_sub(wakeups + from_outside).min(live);
        let at_work = processors().filter(|processor| processor.has_thread && !processor.is_idle).count() as u64;
        let running = at_work.min(live - stopped);
        Strands { live, ready: live - stopped - running, running, stopped }
    }
}

impl ClusterMetrics {
    fn of(cluster: &ClusterShared) -> ClusterMetrics {
        let now = cycles();
        let handle = Cluster::of(cluster);
        let polled = cluster.drivers().get::<Pollers>().looks_of_thread();
        ClusterMetrics {
            name: cluster.name().to_owned(),
            serving: handle.processors(),
            spares: handle.spares(),
            timers: cluster.timers().armed(),
            // Before the processors: their stops come before these.
            wakeups_from_outside: cluster.wakeups_from_outside(),
            polling_thread: polled.map(|(looks, events)| Looks { looks, events }),
            processors: cluster.all_posts().map(|post| ProcessorMetrics::of(post, now)).collect(),
        }
    }
}

impl ProcessorMetrics {
    fn of(post: &Post, now: u64) -> ProcessorMetrics {
        let meters = post.meters();
        // As in `ClusterMetrics::of`.
        let wakeups = meters.wakeups.read();
        ProcessorMetrics {
            id: post.id(),
            has_thread: post.has_thread(),
            is_idle: meters.idle().is_idle(),
            residents: u64::from(post.bound()),
            dispatches: meters.dispatches.read(),
            stops: meters.stops.read(),
            wakeups,
            spawned: meters.tally().spawned(),
            finished: meters.tally().finished(),
            steals: meters.steals.read(),
            rescues: meters.rescues.read(),
            relieved: meters.relieved.read(),
            spins: meters.spins.read(),
            sleeps: meters.sleeps.read(),
            looks: Looks { looks: meters.looks.read(), events: meters.events.read() },
            idle: duration_of(meters.idle().cycles(now)),
            waits: Waits { counts: meters.waits(), sum: Duration::from_micros(meters.waited_us.read()) },
        }
    }
}

impl Waits {
    /// Returns the buckets in order: an upper bound, and the number of dispatches that waited for less than that and at
    /// least for the bound before. The last bucket has no bound. The first bound is 1 µs, and each other one is twice the
    /// one before.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bound = |bucket| (bucket + 1 < WAIT_BUCKETS).then(|| Duration::from_micros(1u64 << bucket));
        self.counts.into_iter().enumerate().map(move |(bucket, count)| (bound(bucket), count))
    }

    /// Returns the number of dispatches.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all waits, each rounded down to a microsecond.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns a bound for the part `q` of all waits: that of the bucket with the wait in question. `q` is between 0
    /// and 1. Returns `None` if nothing has waited, or if the bucket has no bound.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = ((self.count() as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let within = |&(_, count): &(_, u64)| {
            seen += count;
            seen >= rank
        };
        self.buckets().find(within)?.0
    }
}
