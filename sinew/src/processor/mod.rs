#![doc = include_str!("README.md")]

mod belonging;
mod clock;
pub(crate) mod cluster;
mod current;
pub(crate) mod drain;
pub(crate) mod driver;
pub(crate) mod idle;
mod idler;
mod lane;
#[cfg(all(test, sinew_loom))]
mod models;
mod plug;
mod post;
pub(crate) mod roll;
mod running;
mod shared;
pub(crate) mod spawn;
pub(crate) mod waker;

pub(crate) use current::{put_memory, runs_a_task, with_current};
pub(crate) use plug::Plug;
pub(crate) use post::Post;
pub(crate) use shared::RuntimeShared;

use crate::base::{clock::cycles, fork, here};
use crate::sched::{Local, Placement, Wake};
use crate::stack::pool::Stacks;
use crate::strand::blocks::Blocks;
use crate::strand::{After, Fifo, Owed, Priority, Ready, Strand};
use clock::Clock;
use cluster::ClusterShared;
use current::RunningTask;
use idler::Idler;
use lane::Lane;
use post::Order;
use running::Running;
use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The part of a processor that only its own kernel thread touches: its loop, and the strands
/// while they run on it.
pub(crate) struct Processor {
    cluster: Arc<ClusterShared>,
    post: Arc<Post>,
    local: Box<dyn Local>,
    lane: Lane,
    /// Whether the next strand may come from elsewhere than the scheduler: one is in the lane, or
    /// the processor has given up its end of the scheduler.
    mixed: Cell<bool>,
    clock: Clock,
    idler: Idler,
    running: Running,
    stacks: Stacks,
    blocks: Blocks,
    /// Whether the processor has given up its end of the scheduler.
    detached: Cell<bool>,
    /// The cluster whose strands go to the scheduler's end; null when `detached`.
    pushes_for: Cell<*const ClusterShared>,
    migrating: bool,
}

/// Makes a strand ready, from anywhere.
#[inline]
pub(crate) fn make_ready(ready: Ready) {
    with_current(|processor| match processor {
        Some(processor) if processor.may_push(&ready) => processor.push(ready),
        Some(processor) if processor.is_of_runtime(ready.strand().cluster()) => processor.make_ready_slow(ready),
        _ => make_ready_from_outside(ready),
    });
}

/// Makes all `strands` ready, from anywhere. Returns their number.
pub(crate) fn make_all_ready(mut strands: Fifo) -> usize {
    with_current(|processor| match processor {
        Some(processor) => processor.make_all_ready(strands),
        None => std::iter::from_fn(|| strands.pop()).map(make_ready_from_outside).count(),
    })
}

/// Makes a strand ready, on a thread that is no processor of the strand's runtime.
#[cold]
pub(crate) fn make_ready_from_outside(ready: Ready) {
    fork::check();
    // The strand may finish, and its runtime may end, while this thread is still notifying.
    let cluster = ready.strand().cluster().to_arc();
    ready.stamp(cycles());
    cluster.accept(ready);
}

/// Makes a beat due on the calling processor, if there is one. A forked child needs it: see
/// [`fork`].
pub(crate) fn beat_next() {
    with_current(|processor| processor.into_iter().for_each(|processor| processor.clock.beat_next()));
}

impl Processor {
    /// Runs a processor on the calling kernel thread until the processor is to end.
    pub(crate) fn serve<P: Plug>(cluster: Arc<ClusterShared>, post: Arc<Post>) {
        let placement = Placement::new(post.id(), cluster.topology(), Arc::as_ptr(&cluster).addr());
        let processor = Processor {
            local: cluster.scheduler().attach(placement),
            migrating: cluster.runtime().is_migrating(),
            pushes_for: Cell::new(Arc::as_ptr(&cluster)),
            cluster,
            post,
            lane: Lane::new(),
            mixed: Cell::new(false),
            clock: Clock::new(),
            idler: Idler::new(),
            running: Running::new(),
            stacks: Stacks::new(),
            blocks: Blocks::default(),
            detached: Cell::new(false),
        };
        current::enter(&processor, || processor.run::<P>());
    }

    /// Runs strands until the processor is to end.
    fn run<P: Plug>(&self) {
        let mut next = None;
        loop {
            let strand = match next.take().or_else(|| self.next()) {
                Some(strand) => strand,
                None => match self.wait_for_work() {
                    Some(strand) => strand,
                    None => break,
                },
            };
            let after = plug::run::<P>(strand.strand(), self);
            if self.clock.count_dispatch() {
                self.beat(after);
            }
            // Not a `match`: that is a jump through a table, and the CPU predicts branches better.
            next = if after == After::Yielded {
                self.swap(strand)
            } else if matches!(after, After::Parking | After::Waiting) {
                strand.stop(after).and_then(|woken| self.swap(woken))
            } else if after == After::Finished {
                strand.retire();
                self.post.tally().count_finished();
                self.cluster.runtime().one_finished();
                self.signal_joiner::<P>()
            } else {
                strand.stamp(self.clock.now());
                self.pass_on(strand);
                None
            };
        }
        debug_assert!(self.lane.is_empty());
    }

    /// Does what is due every 16 µs. `after` says how the last strand stopped.
    #[cold]
    fn beat(&self, after: After) {
        // See `beat_next`.
        fork::check();
        self.clock.beat();
        let now = self.clock.now();
        let drivers = self.cluster.drivers();
        drivers.fire_due();
        drivers.look_at_times(self.post.id(), now, after == After::Yielded);
        if !self.detached.get() {
            self.local.beat(now);
        }
        if self.lane.relieve_background(now, |ready_at| self.take_deferred(ready_at)) {
            self.mixed.set(true);
        }
        if self.post.order() != Order::Serve {
            self.detach();
        }
    }

    /// Returns the next strand to run from the lane or the scheduler's queue.
    #[inline]
    fn next(&self) -> Option<Ready> {
        if self.mixed.get() || self.post.has_arrivals() {
            return self.next_mixed(self.clock.now());
        }
        self.local.next(self.clock.now())
    }

    /// As [`next`](Processor::next), and weighs the lane against the scheduler's queue.
    #[inline(never)]
    fn next_mixed(&self, now: u64) -> Option<Ready> {
        if self.post.has_arrivals() {
            self.unpack_arrivals();
        }
        let is_detached = self.detached.get();
        if self.lane.is_empty() {
            self.mixed.set(is_detached);
            return if is_detached { None } else { self.local.next(now) };
        }
        if self.lane.gives_way_to(if is_detached { None } else { self.local.claim() }) {
            // Another processor may have taken the strand. Then the scheduler has noted that this
            // processor waits, which has to be undone.
            if let Some(strand) = self.local.next(now) {
                return Some(strand);
            }
            self.stop_waiting();
        }
        self.lane.pop()
    }

    /// Makes a strand of this cluster ready. Returns the next strand if it is at hand.
    #[inline]
    fn swap(&self, strand: Ready) -> Option<Ready> {
        if self.may_push(&strand) && !self.mixed.get() && !self.post.has_arrivals() {
            strand.stamp(self.clock.now());
            return match self.local.exchange(strand, self.clock.now()) {
                Ok(next) => Some(next),
                Err(strand) => {
                    self.push(strand);
                    None
                }
            };
        }
        self.make_ready(strand);
        None
    }

    /// Signals the party that joined the strand which has just ended. If that makes a strand of this
    /// cluster ready, returns the next strand if it is at hand.
    fn signal_joiner<P: Plug>(&self) -> Option<Ready> {
        let ready = P::signal(self.running.take_owed()?)?;
        if std::ptr::eq(ready.strand().cluster(), &*self.cluster) {
            return self.swap(ready);
        }
        make_ready(ready);
        None
    }

    /// Makes a strand of this runtime ready.
    #[inline]
    pub(crate) fn make_ready(&self, ready: Ready) {
        if self.may_push(&ready) { self.push(ready) } else { self.make_ready_slow(ready) }
    }

    /// Says whether the strand goes to this processor's end of the scheduler.
    #[inline(always)]
    fn may_push(&self, ready: &Ready) -> bool {
        let strand = ready.strand();
        std::ptr::eq(strand.cluster(), self.pushes_for.get())
            && !strand.is_bound(u8::MAX)
            && ready.priority() != Priority::Background
    }

    #[inline(always)]
    fn push(&self, ready: Ready) {
        let now = self.clock.now();
        ready.stamp(now);
        let wake = self.local.push(ready, now);
        self.cluster.idle().notify(wake);
    }

    #[inline(never)]
    fn make_ready_slow(&self, ready: Ready) {
        ready.stamp(self.clock.now());
        match ready.strand().bound_to() {
            Some(post) if std::ptr::eq(post, &*self.post) => self.keep(ready),
            _ => self.pass_on(ready),
        }
    }

    /// Makes all `strands` ready; pushes those for this processor's end of the scheduler as one
    /// batch. Returns their number.
    fn make_all_ready(&self, mut strands: Fifo) -> usize {
        let now = self.clock.now();
        let (mut others, mut count) = (Fifo::new(), 0);
        let mut ours = std::iter::from_fn(|| {
            loop {
                let ready = strands.pop()?;
                count += 1;
                ready.stamp(now);
                if self.may_push(&ready) {
                    return Some(ready);
                }
                match ready.strand().bound_to() {
                    Some(post) if std::ptr::eq(post, &*self.post) => self.keep(ready),
                    _ => others.push(ready),
                }
            }
        });
        // A sentinel departs for a lone strand of an event or timer; `depart` notifies if it has to.
        let is_own = |wake| wake == Wake::Lone && self.idler.is_sentinel();
        self.local.push_all(&mut ours, now, &mut |wake| {
            if !is_own(wake) {
                self.cluster.idle().notify(wake);
            }
        });
        while let Some(ready) = others.pop() {
            make_ready(ready);
        }
        count
    }

    /// Gives a strand to the cluster that it belongs to.
    fn pass_on(&self, ready: Ready) {
        self.cluster.cluster_of(&ready).accept(ready);
    }

    /// Puts a strand that is bound to this processor into the lane.
    fn keep(&self, ready: Ready) {
        if self.lane.push(ready) {
            self.mixed.set(true);
        }
    }

    #[cold]
    fn unpack_arrivals(&self) {
        let mut arrivals = self.post.take_arrivals();
        while let Some(strand) = arrivals.pop() {
            self.keep(strand);
        }
    }

    fn take_deferred(&self, ready_at: u64) -> Option<Ready> {
        if self.detached.get() { None } else { self.cluster.take_deferred(ready_at) }
    }

    /// Carries out an order to retire. Says whether the processor is to end now.
    fn is_to_end(&self) -> bool {
        match self.post.order() {
            Order::Serve => false,
            Order::Stop => true,
            Order::Retire => {
                self.detach();
                !self.post.has_bound()
            }
        }
    }

    /// Gives up this processor's end of the scheduler: strands that may move go to the cluster.
    #[cold]
    fn detach(&self) {
        if self.detached.get() {
            return;
        }
        self.stop_waiting();
        self.detached.set(true);
        self.pushes_for.set(std::ptr::null());
        self.mixed.set(true);
        self.cluster.drivers().abandon(self.post.id());
        self.cluster.idle().relieve();
        while let Some(strand) = self.local.drain() {
            let wake = self.cluster.scheduler().inject(strand, self.clock.now());
            self.cluster.idle().notify(wake);
        }
    }

    /// Tells the scheduler that the processor does not wait for strands, in case the scheduler has
    /// noted that it does.
    fn stop_waiting(&self) {
        if !self.detached.get() {
            let wake = self.local.retract(self.clock.now());
            self.cluster.idle().notify(wake);
        }
    }
}

/// What strands ask of the processor that they run on.
impl Processor {
    pub(crate) fn cluster(&self) -> &ClusterShared {
        &self.cluster
    }

    #[inline]
    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    #[inline]
    pub(crate) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    #[inline]
    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns the units that fibres may still spend before one of them yields.
    #[inline]
    pub(crate) fn budget(&self) -> &Cell<u32> {
        self.running.budget()
    }

    /// Returns the number of operations that the running task may still do in this poll.
    #[inline]
    pub(crate) fn task_budget(&self) -> &Cell<u32> {
        self.running.task_budget()
    }

    /// Makes a reading of the clock due. A strand that has run for long calls this: when it gives
    /// way, it is stamped with the present time, and stands behind strands that were ready before it.
    pub(crate) fn read_clock_next(&self) {
        self.clock.read_next();
    }

    /// Returns the running task, if a task runs.
    #[inline]
    pub(crate) fn task(&self) -> Option<&Strand> {
        self.running.task().get()
    }

    /// Makes `task` the running task until the result is dropped.
    #[inline]
    pub(crate) fn begin_task<'a>(&'a self, task: &'a Strand) -> RunningTask<'a> {
        self.running.begin_task(task)
    }

    /// Says whether a strand runs the caller. If not, the processor has called it between two
    /// strands, as it calls wakers. Then the runtime may have no live strand.
    #[inline]
    pub(crate) fn runs_a_strand(&self) -> bool {
        !here::stack().is_null() || self.running.task().is_some()
    }

    /// Says whether started fibres may leave this processor.
    #[inline]
    pub(crate) fn is_migrating(&self) -> bool {
        self.migrating
    }

    #[inline]
    pub(crate) fn is_of_runtime(&self, cluster: &ClusterShared) -> bool {
        std::ptr::eq(cluster, &*self.cluster) || self.cluster.is_of_same_runtime(cluster)
    }

    #[inline]
    pub(crate) fn fresh_id(&self) -> NonZeroU64 {
        self.running.fresh_id()
    }

    /// Lets the processor signal the party that joined the calling strand, when that strand has
    /// ended. By then the strand's stack is free, and the party takes its place in the queue in one
    /// step.
    pub(crate) fn owe_signal(&self, joiner: Owed) {
        self.running.owe_signal(joiner);
    }
}
