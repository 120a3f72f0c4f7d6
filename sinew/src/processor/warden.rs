//! The warden: a kernel thread of a runtime that notices processors which are held up. The essay of
//! [`processor`](crate::processor) says what it does for the strands that are held up with them.

use super::cluster::ClusterShared;
use super::post::{Hold, Post, Seen};
use super::rest::Rest;
use super::shared::RuntimeShared;
use super::stall::Stalls;
use crate::base::clock::{cycles, cycles_in_us, duration_of};
use crate::base::kernel;
use crate::sched::Wake;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A processor that has not read its clock for this long is held up. Dispatches are to be shorter than
/// this by two orders of magnitude, and the kernel takes a CPU away for 3 to 10 ms.
pub(super) const HELD_UP_US: u64 = 10_000;

/// The distance between two looks. It doubles while nothing changes. A stall is watched from the first look at it
/// on, so it is found after this time and its limit, which is 10 ms: within 20 ms.
const LOOK_EVERY: Duration = Duration::from_millis(8);
const LOOK_SELDOM: Duration = Duration::from_millis(160);
const LEAST_DISTANCE: Duration = Duration::from_millis(1);

/// A spare processor retires when it was not needed for this many looks: a program that blocks once will
/// often do so again.
const SPARE_LOOKS: u32 = 125;

pub(crate) struct Warden {
    rest: Rest,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The result of a look at a cluster.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sight {
    /// The number of processors that are neither asleep nor held up.
    at_work: u32,
    computing: u32,
    /// The number of processors that are blocked and do not retire.
    blocked: u32,
    spares: u32,
}

impl Warden {
    pub(super) fn new() -> Warden {
        Warden { rest: Rest::new(), thread: Mutex::new(None) }
    }

    /// Starts the thread, on behalf of the first cluster of its runtime. Without a thread the runtime
    /// works all the same, and nobody notices processors that are held up.
    pub(super) fn start(&self, cluster: &ClusterShared) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let cluster = cluster.to_arc();
            let name = format!("{}-warden", cluster.name());
            let (begins, has_begun) = mpsc::channel();
            let watch = move || {
                let _ = begins.send(());
                watch(cluster.runtime());
            };
            *thread = thread::Builder::new().name(name).spawn(watch).ok();
            // A thread that begins needs memory, which the program may soon not have.
            let _ = has_begun.recv();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.rest.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Wakes the warden if it rests. By a processor that has woken up.
    #[inline]
    pub(super) fn attend(&self) {
        self.rest.disturb();
    }
}

/// Watches the processors of a runtime until the runtime ends.
fn watch(runtime: &RuntimeShared) {
    let rest = &runtime.warden().rest;
    let held_up = cycles_in_us(HELD_UP_US);
    let mut stalls = runtime.stalls().map(|plan| Stalls::new(plan, runtime.portray()));
    let look_every = runtime.stalls().map_or(LOOK_EVERY, |plan| (plan.limit / 5 * 4).clamp(LEAST_DISTANCE, LOOK_EVERY));
    let (mut distance, mut before) = (look_every, Vec::new());
    while !rest.is_stopped() {
        rest.pause(distance);
        let clusters = runtime.all_clusters();
        let sights: Vec<Sight> = clusters.iter().map(|cluster| cluster.look_after_held_up(held_up)).collect();
        let is_quiet = sights.iter().all(|sight| *sight == Sight::default());
        let is_new = sights != before || sights.iter().any(|sight| sight.at_work > 0 || sight.spares > sight.blocked);
        distance = if is_new { look_every } else { (distance * 2).min(LOOK_SELDOM) };
        before = sights;
        if is_quiet {
            rest.begin(|| clusters.iter().any(|cluster| !cluster.sleeps()));
        } else if let Some(again) = stalls.as_mut().and_then(|stalls| stalls.look(&clusters)) {
            distance = distance.min(again.max(LEAST_DISTANCE));
        }
    }
}

impl ClusterShared {
    /// Says whether all processors of the cluster sleep.
    fn sleeps(&self) -> bool {
        self.all_posts().all(|post| !post.has_thread() || self.idle().is_asleep(post.id()))
    }

    /// Looks for processors that have not read their clocks for `limit` cycles, and does what the others
    /// need.
    fn look_after_held_up(&self, limit: u64) -> Sight {
        let mut sight = Sight::default();
        for post in self.all_posts().filter(|post| post.has_thread()) {
            let hold = self.hold_of(post, limit);
            post.set_hold(hold);
            match hold {
                Hold::None if self.idle().is_asleep(post.id()) => {}
                Hold::None => sight.at_work += 1,
                Hold::Computing => sight.computing += 1,
                Hold::Blocked if post.is_serving() => sight.blocked += 1,
                Hold::Blocked => {}
            }
            if hold != Hold::None {
                self.relieve(post);
            }
        }
        sight.spares = self.adjust_spares(sight.blocked, SPARE_LOOKS);
        sight
    }

    fn hold_of(&self, post: &Post, limit: u64) -> Hold {
        // In this order: a processor reads its clock before it falls asleep and after it wakes up.
        let (pulse, now) = (post.pulse(), cycles());
        let is_held_up =
            now.saturating_sub(pulse) >= limit && !self.idle().is_asleep(post.id()) && post.pulse() == pulse;
        let spent = if is_held_up { kernel::time_spent(post.thread()) } else { None };
        let awake = spent.map(|spent| spent.running + spent.queued);
        let Some(awake) = awake else {
            post.note_seen(Seen::default());
            return if is_held_up { Hold::Computing } else { Hold::None };
        };
        let before = post.note_seen(Seen { at: now, awake });
        let is_blocked =
            before.at != 0 && awake.saturating_sub(before.awake) * 2 < duration_of(now.saturating_sub(before.at));
        if is_blocked { Hold::Blocked } else { Hold::Computing }
    }

    /// Gives the fibres that were to begin at `post` to the others, and lets another processor look for
    /// strands in its queues.
    fn relieve(&self, post: &Post) {
        let mut newcomers = post.newcomers().take();
        while let Some(newcomer) = newcomers.pop() {
            post.meters().relieved.add(1);
            self.accept(newcomer);
        }
        self.idle().notify_from_outside(Wake::Backlog);
    }
}
