//! A processor: one kernel thread that runs strands.
//!
//! Its loop takes the next strand, runs it until it gives up the processor, and
//! does what that asks for, on the kernel thread's own stack. What a processor
//! may run comes from two places: its scheduler, and its *lane*, in which those
//! strands wait that may run on no other.
#![allow(unsafe_code)]

pub(crate) mod cluster;
pub(crate) mod drain;
pub(crate) mod idle;
mod idling;
#[cfg(all(test, sinew_loom))]
mod models;

use crate::base::clock;
use crate::base::fork;
use crate::base::here;
use crate::fibre::fresh_ids;
use crate::io::Poller;
use crate::processor::cluster::ClusterShared;
use crate::processor::drain::Tally;
use crate::sched::{BEAT_US, Claim, Local, Placement, ProcessorId, Wake};
use crate::stack::pool::Stacks;
use crate::strand::blocks::Blocks;
use crate::strand::{After, Fifo, Inbox, Levels, PassedOver, Priority, Ready, Strand};
use crate::wait::Party;
use idling::{LINGER_US, LOOK_DISTANCE_US, LUCK};
use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The clock is read at every dispatch while dispatches are long and at every
/// 16th while they are short: reading it takes 6 to 11 ns, a third of a yield.
const DISPATCHES_PER_READING: u32 = 16;
/// Dispatches are long when 16 of them take longer than this.
const SHORT_DISPATCHES_US: u64 = 4;

/// How long a background strand waits behind others, and how far apart the turns are that
/// a busy processor gives to such strands. Unmeasured: a hundred turns a second are nothing
/// to the others, and enough for a lock to be released.
const BACKGROUND_WAIT_US: u64 = 10_000;

/// How many numbers for fibres a processor draws at once.
const ID_BLOCK: u64 = 1024;

/// The part of a processor that others see.
pub(crate) struct Post {
    id: ProcessorId,
    /// Strands of the lane that others have made ready.
    arrivals: Inbox,
    /// What the processor is to do.
    order: AtomicU8,
    /// Strands that may not leave. Written by the processor only.
    bound: AtomicU32,
    /// Strands of the runtime that were spawned and that ended here.
    tally: Tally,
}

/// What a processor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Run strands.
    Serve = 0,
    /// Run only those that may not leave, and end after the last of them.
    Retire = 1,
    /// End: there are no strands any more.
    Stop = 2,
}

impl Post {
    pub(crate) fn new(id: ProcessorId) -> Self {
        Post {
            id,
            arrivals: Inbox::new(),
            order: AtomicU8::new(Order::Serve as u8),
            bound: AtomicU32::new(0),
            tally: Tally::new(),
        }
    }

    pub(crate) fn id(&self) -> ProcessorId {
        self.id
    }

    pub(crate) fn order(&self) -> Order {
        match self.order.load(Ordering::Relaxed) {
            0 => Order::Serve,
            1 => Order::Retire,
            _ => Order::Stop,
        }
    }

    pub(crate) fn give_order(&self, order: Order) {
        self.order.store(order as u8, Ordering::Relaxed);
    }

    pub(crate) fn bound_one(&self) {
        self.bound.store(self.bound.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn freed_one(&self) {
        self.bound.store(self.bound.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Puts a strand that is bound to this processor where it finds it.
    fn deliver(&self, cluster: &ClusterShared, ready: Ready) {
        self.arrivals.put(ready);
        cluster.idle().notify_processor(self.id);
    }
}

/// The part of a processor that only its own kernel thread touches: its loop,
/// and the fibres while they run on it.
pub(crate) struct Processor {
    cluster: Arc<ClusterShared>,
    post: Arc<Post>,
    local: Box<dyn Local>,
    /// Strands that may run only here.
    lane: RefCell<Levels>,
    /// Whether strands come from elsewhere than from the scheduler alone: there
    /// is one in the lane, or the scheduler's end has been given up.
    mixed: Cell<bool>,
    /// Those of them that run only when nothing else does, or after a while.
    background_lane: RefCell<Fifo>,
    /// Counts for the less urgent of the lane and the scheduler's queue.
    passed_over: RefCell<PassedOver>,
    /// When a background strand may run next although there are others.
    next_background: Cell<u64>,
    background_wait: u64,
    stacks: Stacks,
    blocks: Blocks,
    /// The last reading of the clock, in ticks.
    now: Cell<u64>,
    /// Dispatches until the clock is read again, and how many that was.
    until_reading: Cell<u32>,
    /// When to look at timers and at others.
    next_beat: Cell<u64>,
    /// When to look at the poller again, for a processor that has nothing to do.
    next_look: Cell<u64>,
    /// Whether the last look at the poller was in vain, and no two strands have become ready
    /// there at once since: the next one would be in vain as well.
    is_slack: Cell<bool>,
    look_distance: u64,
    beat: u64,
    short: u64,
    linger: u64,
    /// How often it may still linger in vain.
    luck: Cell<u32>,
    /// Whether it was an event for which it has stopped being idle.
    has_departed: Cell<bool>,
    /// Whether it sleeps as the sentinel.
    is_sentinel: Cell<bool>,
    ids: Cell<(u64, u64)>,
    /// What is left until an operation that need not wait yields; see [`crate::wait::budget`].
    budget: Cell<u32>,
    /// The task that runs; null while none does.
    task: Cell<*const Strand>,
    /// Operations that it may do before one that need not wait gives way.
    task_budget: Cell<u32>,
    /// See [`owe_signal`](Processor::owe_signal).
    joiner: Cell<Option<Party>>,
    migrating: bool,
    /// Whether the scheduler's end has been given up.
    detached: Cell<bool>,
    /// The cluster, until then; null since.
    pushes_for: Cell<*const ClusterShared>,
}

/// While a task runs.
pub(crate) struct RunningTask<'a> {
    processor: &'a Processor,
}

impl Drop for RunningTask<'_> {
    #[inline]
    fn drop(&mut self) {
        self.processor.task.set(std::ptr::null());
    }
}

/// Calls `f` with the processor that runs the caller, if there is one. `f` must
/// not suspend the calling fibre.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Processor>) -> R) -> R {
    // SAFETY: a processor outlives what runs on it, and `f` does not leave it.
    f(unsafe { here::processor().as_ref() })
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

/// Makes strands ready, from anywhere. How many these were.
pub(crate) fn make_all_ready(mut strands: Fifo) -> usize {
    with_current(|processor| match processor {
        Some(processor) => processor.make_all_ready(strands),
        None => std::iter::from_fn(|| strands.pop()).map(make_ready_from_outside).count(),
    })
}

/// Makes a strand ready, from a thread that is no processor of its runtime.
#[cold]
pub(crate) fn make_ready_from_outside(ready: Ready) {
    fork::check();
    // The strand may finish and its runtime end while we are still notifying.
    let cluster = ready.strand().cluster().to_arc();
    ready.stamp(clock::cycles());
    cluster.accept(ready);
}

impl ClusterShared {
    /// Takes a strand that a processor of another cluster, or no processor at
    /// all, has made ready.
    pub(crate) fn accept(&self, ready: Ready) {
        if let Some(home) = ready.strand().bound_to().map(std::ptr::from_ref) {
            // SAFETY: posts live as long as their cluster.
            unsafe { &*home }.deliver(self, ready);
        } else if ready.priority() == Priority::Background {
            self.defer(ready);
        } else {
            let now = ready.ready_at();
            let wake = self.scheduler().inject(ready, now);
            self.idle().notify(wake);
        }
    }
}

impl Processor {
    /// The life of a processor's kernel thread.
    pub(crate) fn serve(cluster: Arc<ClusterShared>, post: Arc<Post>) {
        let place = Placement::new(post.id(), cluster.topology(), Arc::as_ptr(&cluster).addr());
        let local = cluster.scheduler().attach(place);
        let processor = Processor {
            migrating: cluster.runtime().is_migrating(),
            cluster,
            post,
            local,
            lane: RefCell::new(Levels::new()),
            mixed: Cell::new(false),
            background_lane: RefCell::new(Fifo::new()),
            passed_over: RefCell::new(PassedOver::new()),
            next_background: Cell::new(0),
            background_wait: clock::cycles_in_us(BACKGROUND_WAIT_US),
            stacks: Stacks::new(),
            blocks: Blocks::default(),
            now: Cell::new(clock::cycles()),
            until_reading: Cell::new(0),
            next_beat: Cell::new(0),
            next_look: Cell::new(0),
            is_slack: Cell::new(false),
            look_distance: clock::cycles_in_us(LOOK_DISTANCE_US),
            beat: clock::cycles_in_us(BEAT_US),
            short: clock::cycles_in_us(SHORT_DISPATCHES_US),
            linger: clock::cycles_in_us(LINGER_US),
            luck: Cell::new(LUCK),
            has_departed: Cell::new(false),
            is_sentinel: Cell::new(false),
            ids: Cell::new((0, 0)),
            budget: Cell::new(0),
            task: Cell::new(std::ptr::null()),
            task_budget: Cell::new(0),
            joiner: Cell::new(None),
            detached: Cell::new(false),
            pushes_for: Cell::new(std::ptr::null()),
        };
        processor.pushes_for.set(&*processor.cluster);
        here::set_processor(&processor);
        processor.run();
        here::set_processor(std::ptr::null());
    }

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

    #[inline]
    pub(crate) fn budget(&self) -> &Cell<u32> {
        &self.budget
    }

    /// The poller for what a fibre waits for that runs here.
    pub(crate) fn poller(&self) -> io::Result<Arc<Poller>> {
        self.cluster.pollers().poller(self.post.id(), &self.cluster)
    }

    /// To be called by a strand that has run for long: it is stamped with the present
    /// time when it gives way, and so stands behind those that were ready before it.
    pub(crate) fn read_clock_next(&self) {
        self.until_reading.set(0);
    }

    /// Makes a tick due, which is then the first thing to happen when the strand that runs
    /// gives up the processor. By that strand.
    pub(crate) fn beat_next(&self) {
        self.until_reading.set(0);
        self.next_beat.set(0);
    }

    /// The task that runs, if one does.
    #[inline]
    pub(crate) fn task(&self) -> Option<&Strand> {
        // SAFETY: it is not freed while it runs.
        unsafe { self.task.get().as_ref() }
    }

    /// Makes `task` the one that runs, until the result is dropped.
    #[inline]
    pub(crate) fn begin_task<'a>(&'a self, task: &'a Strand) -> RunningTask<'a> {
        self.task.set(task);
        self.task_budget.set(crate::task::OPERATIONS);
        RunningTask { processor: self }
    }

    #[inline]
    pub(crate) fn task_budget(&self) -> &Cell<u32> {
        &self.task_budget
    }

    /// Whether a strand runs the caller. If not, the processor has called it between two
    /// strands: a waker, for instance. Then no strand may be left in the runtime.
    #[inline]
    pub(crate) fn runs_a_strand(&self) -> bool {
        !here::stack().is_null() || !self.task.get().is_null()
    }

    /// Whether started fibres may leave this processor.
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
        let (mut next, mut end) = self.ids.get();
        if next == end {
            next = fresh_ids(ID_BLOCK).get();
            end = next + ID_BLOCK;
        }
        self.ids.set((next + 1, end));
        NonZeroU64::new(next).expect("numbers begin at 1")
    }

    /// Makes a strand of this runtime ready.
    #[inline]
    pub(crate) fn make_ready(&self, ready: Ready) {
        if self.may_push(&ready) { self.push(ready) } else { self.make_ready_slow(ready) }
    }

    /// Whether the strand is one for this processor's end of the scheduler.
    #[inline(always)]
    fn may_push(&self, ready: &Ready) -> bool {
        let strand = ready.strand();
        std::ptr::eq(strand.cluster(), self.pushes_for.get())
            && !strand.is_bound(u8::MAX)
            && ready.priority() != Priority::Background
    }

    #[inline(always)]
    fn push(&self, ready: Ready) {
        let now = self.now.get();
        ready.stamp(now);
        let wake = self.local.push(ready, now);
        self.cluster.idle().notify(wake);
    }

    #[inline(never)]
    fn make_ready_slow(&self, ready: Ready) {
        ready.stamp(self.now.get());
        match ready.strand().bound_to() {
            Some(home) if std::ptr::eq(home, self.post()) => self.keep(ready),
            _ => self.pass_on(ready),
        }
    }

    /// Makes as many strands ready as that, in one step where they are for this
    /// processor's end of the scheduler. How many that were.
    fn make_all_ready(&self, mut strands: Fifo) -> usize {
        let now = self.now.get();
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
                    Some(home) if std::ptr::eq(home, self.post()) => self.keep(ready),
                    _ => others.push(ready),
                }
            }
        });
        // A sentinel that got one event, or a timer, departs for it, and tells others then if it has to.
        let is_own = |wake| wake == Wake::Lone && self.is_sentinel.get();
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

    /// Leaves a strand to the cluster that it belongs to.
    fn pass_on(&self, ready: Ready) {
        let cluster = std::ptr::from_ref(ready.strand().cluster());
        // SAFETY: a cluster of this runtime, which lives as long as any of the
        // runtime's processors, even if the strand ends meanwhile.
        unsafe { &*cluster }.accept(ready);
    }

    /// Enters a strand that is bound to this processor.
    fn keep(&self, ready: Ready) {
        match ready.priority() {
            Priority::Background => self.background_lane.borrow_mut().push(ready),
            _ => {
                self.mixed.set(true);
                self.lane.borrow_mut().push(ready);
            }
        }
    }

    fn run(&self) {
        let mut next = None;
        loop {
            let strand = match next.take().or_else(|| self.next()) {
                Some(strand) => strand,
                None => match self.wait_for_work() {
                    Some(strand) => strand,
                    None => break,
                },
            };
            let after = strand.run(self);
            self.read_clock(after);
            // Not a `match`: that is a jump through a table, and the CPU guesses
            // these two better.
            next = if after == After::Yielded {
                self.swap(strand)
            } else if matches!(after, After::Parking | After::Waiting) {
                strand.stop(after).and_then(|woken| self.swap(woken))
            } else if after == After::Finished {
                strand.retire();
                self.count_finished();
                self.signal_joiner()
            } else {
                strand.stamp(self.now.get());
                self.pass_on(strand);
                None
            };
        }
        debug_assert!(self.lane.borrow().is_empty());
    }

    /// Leaves it to the processor to signal whoever joined the calling fibre, when
    /// that has ended: its stack is free again then, and the one who goes on takes
    /// its place in the queue in one step.
    pub(crate) fn owe_signal(&self, joiner: Party) {
        self.joiner.set(Some(joiner));
    }

    /// Signals who joined the fibre that has just ended, and gives the next strand
    /// if that was of the same cluster.
    fn signal_joiner(&self) -> Option<Ready> {
        // SAFETY: the fibre took it out of its join word and left it to us.
        let ready = unsafe { self.joiner.take()?.signal_strand() }?;
        if std::ptr::eq(ready.strand().cluster(), &*self.cluster) {
            return self.swap(ready);
        }
        make_ready(ready);
        None
    }

    /// Reads the clock if it is time to, and does what is due at a tick. `after` says how the last
    /// strand stopped.
    #[inline]
    fn read_clock(&self, after: After) {
        let left = self.until_reading.get();
        if left > 0 {
            return self.until_reading.set(left - 1);
        }
        let now = clock::cycles();
        let brisk = now.saturating_sub(self.now.replace(now)) < self.short;
        self.until_reading.set(if brisk { DISPATCHES_PER_READING - 1 } else { 0 });
        if now >= self.next_beat.get() {
            self.beat(now, after);
        }
    }

    #[cold]
    fn beat(&self, now: u64, after: After) {
        // See `beat_next`.
        fork::check();
        self.next_beat.set(now + self.beat);
        self.cluster.timers().fire_due();
        self.cluster.pollers().look_at_times(self.post.id(), now, after == After::Yielded);
        if !self.detached.get() {
            self.local.beat(now);
        }
        if now >= self.next_background.get() {
            self.relieve_background(now);
        }
        if self.post.order() != Order::Serve {
            self.detach();
        }
    }

    /// The next strand to run, of those that are here.
    #[inline]
    fn next(&self) -> Option<Ready> {
        if self.mixed.get() || !self.post.arrivals.is_empty() {
            return self.next_mixed(self.now.get());
        }
        self.local.next(self.now.get())
    }

    /// Weighs the lane against the scheduler's queue.
    #[inline(never)]
    fn next_mixed(&self, now: u64) -> Option<Ready> {
        if !self.post.arrivals.is_empty() {
            self.unpack_arrivals();
        }
        if self.lane.borrow().is_empty() {
            self.mixed.set(self.detached.get());
            return if self.detached.get() { None } else { self.local.next(now) };
        }
        let claim = self.lane.borrow().claim();
        let other = if self.detached.get() { None } else { self.local.claim() };
        if other.is_some_and(|other| claim.is_none_or(|claim| self.goes_first(other, claim))) {
            // The scheduler may find that another processor was faster; what it
            // then did to await work has to be undone.
            if let Some(strand) = self.local.next(now) {
                return Some(strand);
            }
            self.stop_waiting();
        }
        let mut lane = self.lane.borrow_mut();
        let next = lane.pop();
        lane.prefetch_head();
        next
    }

    /// Whether the scheduler's queue has the next turn, and not the lane.
    fn goes_first(&self, queue: Claim, lane: Claim) -> bool {
        let is_first = queue < lane;
        let less_urgent = if is_first { lane } else { queue };
        let may_pass = queue.priority == lane.priority || self.passed_over.borrow_mut().may_be(less_urgent.ready_at);
        is_first == may_pass
    }

    /// The background strand that has waited longest, if it was ready at `ready_at` already.
    fn take_background(&self, ready_at: u64) -> Option<Ready> {
        let deferred = |ready_at| if self.detached.get() { None } else { self.cluster.take_deferred(ready_at) };
        let mut lane = self.background_lane.borrow_mut();
        match lane.ready_at() {
            Some(since) if since <= ready_at => deferred(since).or_else(|| lane.pop()),
            _ => deferred(ready_at),
        }
    }

    /// Lets a background strand that has waited for long compete with the others, once.
    fn relieve_background(&self, now: u64) {
        if let Some(strand) = self.take_background(now.saturating_sub(self.background_wait)) {
            self.next_background.set(now + self.background_wait);
            self.mixed.set(true);
            self.lane.borrow_mut().push(strand);
        }
    }

    #[cold]
    fn unpack_arrivals(&self) {
        let mut arrivals = self.post.arrivals.take_all();
        while let Some(strand) = arrivals.pop() {
            self.keep(strand);
        }
    }

    /// Takes a strand of this cluster that is ready, and gives the next one if it
    /// has one at hand.
    #[inline]
    fn swap(&self, strand: Ready) -> Option<Ready> {
        if self.may_push(&strand) && !self.mixed.get() && self.post.arrivals.is_empty() {
            strand.stamp(self.now.get());
            return match self.local.exchange(strand, self.now.get()) {
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

    fn count_finished(&self) {
        self.post.tally.count_finished();
        self.cluster.runtime().one_finished();
    }

    /// Whether the processor has nothing to do any more, ever. Carries out an
    /// order to retire.
    fn is_to_end(&self) -> bool {
        match self.post.order() {
            Order::Serve => false,
            Order::Stop => true,
            Order::Retire => {
                self.detach();
                self.post.bound.load(Ordering::Relaxed) == 0
            }
        }
    }

    /// Gives all strands that may leave to the others, for good.
    #[cold]
    fn detach(&self) {
        if self.detached.get() {
            return;
        }
        self.stop_waiting();
        self.detached.set(true);
        self.pushes_for.set(std::ptr::null());
        self.mixed.set(true);
        self.cluster.pollers().abandon(self.post.id());
        self.cluster.idle().relieve();
        while let Some(strand) = self.local.drain() {
            let wake = self.cluster.scheduler().inject(strand, self.now.get());
            self.cluster.idle().notify(wake);
        }
    }
}
