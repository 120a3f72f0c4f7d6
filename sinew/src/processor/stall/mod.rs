//! Stalls: strands that keep their processor for long. The warden finds them and says which strands they
//! are. The essay of [`processor`](crate::processor) has the steps.

mod capture;
mod portrait;
mod quiet;
mod report;
mod reporter;
mod watch;
mod window;

pub(crate) use capture::{Registers, install};
pub(crate) use portrait::{Portrait, Portray, Present, Whom};
pub use report::{Stall, StrandKind};
pub(super) use window::{View, Window};

use super::cluster::ClusterShared;
use super::post::Post;
use crate::base::clock::{cycles, cycles_in_us, duration_of};
use crate::base::kernel;
use capture::{Look, Looker};
use reporter::{Reporter, Sight};
use std::sync::Arc;
use std::time::Duration;
use watch::{Dispatch, Reading, Watch};

/// Takes a report, which is not written to standard error then.
pub(crate) type Hook = Arc<dyn Fn(&Stall) + Send + Sync>;

/// The warden's orders about stalls. The runtime makes them.
pub(crate) struct StallPlan {
    /// A strand that keeps its processor for longer is reported.
    pub(crate) limit: Duration,
    /// The number of the signal that interrupts strands which compute.
    pub(crate) signal: i32,
    pub(crate) hook: Option<Hook>,
    pub(crate) walk: Walk,
}

/// A stack that was copied.
pub(crate) struct CopiedStack<'a> {
    pub(crate) registers: Registers,
    /// The bytes from the stack pointer up; empty if they could not be copied.
    pub(crate) bytes: &'a [u8],
    /// The top of the stack if it is a fibre's; 0 if not.
    pub(crate) top: usize,
}

/// Returns the functions that a stack is in, the innermost first. Plugged in by the runtime.
pub(crate) type Walk = fn(&CopiedStack<'_>) -> Vec<String>;

/// The watch for stalls. Owner: the warden.
pub(super) struct Stalls<'a> {
    plan: &'a StallPlan,
    watches: Vec<(*const Post, Watch)>,
    looker: Looker,
    reporter: Reporter,
    /// A dispatch that is older than this is watched, in cycles.
    doubtful: u64,
}

impl<'a> Stalls<'a> {
    pub(super) fn new(plan: &'a StallPlan, portray: Portray) -> Stalls<'a> {
        let doubtful = cycles_in_us(u64::try_from(plan.limit.as_micros() / 32).unwrap_or(u64::MAX / 1_000_000));
        let looker = Looker::new(portray, plan.signal);
        Stalls { plan, watches: Vec::new(), looker, reporter: Reporter::new(plan), doubtful }
    }

    /// Looks at all processors. Returns the time after which it is to look again, if it knows.
    pub(super) fn look(&mut self, clusters: &[Arc<ClusterShared>]) -> Option<Duration> {
        let posts = clusters.iter().flat_map(|cluster| cluster.all_posts().map(move |post| (&**cluster, post)));
        posts.filter_map(|(cluster, post)| self.look_at(cluster, post)).min()
    }

    fn look_at(&mut self, cluster: &ClusterShared, post: &Post) -> Option<Duration> {
        let place = self.watches.iter().position(|(watched, _)| std::ptr::eq(*watched, post));
        let watch = place.map(|place| self.watches.swap_remove(place).1);
        let (dispatch, age) = self.doubtful(cluster, post)?;
        let watch = watch.filter(|watch| watch.dispatch == dispatch);
        if let Some(watch) = watch.filter(|watch| watch.is_reported) {
            self.watches.push((post, watch));
            // The next stall may come after this one.
            return Some(age / 8);
        }
        let (limit, thread) = (self.plan.limit, post.thread());
        let mut reading = Reading::new(kernel::cpu_time_of(thread)?);
        let mut watch = watch.unwrap_or_else(|| Watch::begin(dispatch, reading));
        let mut held = watch.time(&reading);
        // The rest is asked for only if it matters: that takes the kernel longer.
        if held >= limit {
            reading.waits = kernel::waiting(thread).is_some();
            let spent = if reading.waits { kernel::time_spent(thread) } else { None };
            reading.queued = spent.map(|spent| spent.queued);
            held = watch.held(&reading);
            if held >= limit {
                watch.is_reported = self.report(cluster, post, dispatch, held, reading.waits);
            } else {
                watch.learn(&reading);
            }
        }
        self.watches.push((post, watch));
        // A little later than it needs, and not too often if the thread waits for a CPU.
        Some((limit.saturating_sub(held) + limit / 32).max(limit / 4))
    }

    /// Returns the dispatch of a processor and its age, if it takes long.
    fn doubtful(&self, cluster: &ClusterShared, post: &Post) -> Option<(Dispatch, Duration)> {
        // In this order, as in `hold_of`.
        let (pulse, now) = (post.pulse(), cycles());
        let age = now.saturating_sub(pulse);
        if age < self.doubtful || !post.has_thread() || cluster.idle().is_asleep(post.id()) {
            return None;
        }
        let dispatch = post.window().dispatch(pulse, post.tally().spawned())?;
        (post.pulse() == pulse).then(|| (dispatch, duration_of(age)))
    }

    /// Has a stall reported, or counted. Returns `false` if it cannot be looked at: it is over, or has just begun to
    /// compute, or to wait.
    fn report(
        &mut self,
        cluster: &ClusterShared,
        post: &Post,
        dispatch: Dispatch,
        held: Duration,
        is_blocked: bool,
    ) -> bool {
        let describe = |look: &Look, whom: Whom| Sight {
            stall: Stall {
                kind: whom.kind,
                name: whom.name,
                id: whom.id,
                type_name: whom.type_name,
                spawned_at: whom.spawned_at,
                cluster: cluster.name().to_owned(),
                processor: post.id(),
                held,
                is_blocked,
                neighbours: look.neighbours,
                frames: Vec::new(),
                unreported: 0,
            },
            registers: look.registers,
            stack: look.stack().into(),
            top: look.top,
        };
        let sight = match is_blocked {
            true => self.looker.at_waiting(post, dispatch, describe),
            false => self.looker.at_computing(post, dispatch, describe),
        };
        // A processor that waits in the kernel between two strands sleeps. It counts as awake when another thread is about
        // to wake it, and that thread may have to wait for a CPU.
        let sight = sight.filter(|sight| !is_blocked || sight.stall.kind.is_some());
        sight.map(|sight| self.reporter.take(sight)).is_some()
    }
}
