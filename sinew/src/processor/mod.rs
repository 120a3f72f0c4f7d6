#![doc = include_str!("README.md")]

mod batching;
mod belonging;
mod carriers;
mod clock;
pub(crate) mod cluster;
mod current;
pub(crate) mod drain;
pub(crate) mod driver;
pub(crate) mod idle;
mod idler;
mod lane;
mod meters;
#[cfg(all(test, sinew_loom))]
mod models;
mod newcomers;
pub(crate) mod outbox;
mod parts;
mod plug;
mod post;
pub(crate) mod recorder;
mod rest;
pub(crate) mod roll;
mod running;
mod settling;
mod shared;
pub(crate) mod spawn;
pub(crate) mod stall;
pub(crate) mod waker;
mod warden;

pub(crate) use batching::Leaving;
pub(crate) use carriers::NewCarrier;
pub(crate) use current::{put_memory, put_record, runs_a_task, with_current};
#[cfg(all(test, not(sinew_loom)))]
pub(crate) use meters::METERS;
pub(crate) use meters::WAIT_BUCKETS;
pub(crate) use plug::Plug;
pub(crate) use post::Post;
pub(crate) use recorder::Event;
pub(crate) use shared::RuntimeShared;

use crate::base::describe::Entry;
use crate::base::{clock::cycles, fork, here, kernel};
use crate::identity::Identities;
use crate::sched::{Local, Placement, Wake};
use crate::stack::pool::Stacks;
use crate::strand::blocks::Blocks;
use crate::strand::{After, Fifo, Priority, Ready};
use batching::Batching;
use carriers::Carriers;
use clock::Clock;
use cluster::ClusterShared;
use idler::Idler;
use lane::Lane;
use meters::{Pending, Sample};
use post::Order;
use recorder::{Off, Recorder, Recording};
use running::Running;
use settling::Settling;
use stall::View;
use std::cell::Cell;
use std::sync::Arc;

/// The entries of the description.
pub(crate) const ENTRIES: &[&[Entry]] = &[cluster::ENTRIES, post::ENTRIES, &meters::ENTRIES, recorder::ENTRIES];

/// The part of a processor that only its own kernel thread touches: its loop, and the strands
/// while they run on it.
pub(crate) struct Processor {
    cluster: Arc<ClusterShared>,
    post: Arc<Post>,
    local: Box<dyn Local>,
    lane: Lane,
    supply: Cell<Supply>,
    clock: Clock,
    pending: Pending,
    sample: Sample,
    idler: Idler,
    running: Running,
    settling: Settling,
    batching: Batching,
    carriers: Carriers,
    stacks: Stacks,
    /// The identities of fibres, if they have their own.
    identities: Option<Identities>,
    blocks: Blocks,
    recorder: Recorder,
    /// Whether the processor has given up its end of the scheduler.
    detached: Cell<bool>,
    /// The cluster whose strands go straight to the scheduler's end; null unless all strands come
    /// from there, and null while the processor records.
    pushes_for: Cell<*const ClusterShared>,
    /// The processor's post, whose strands go straight to the lane; an address without a post while the processor
    /// records. Not null: that is what a strand has that is not bound.
    keeps_for: Cell<*const Post>,
    migrating: bool,
}

/// Where a processor's next strand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// From the scheduler: the lane is empty.
    Scheduler,
    /// From the lane: the scheduler's queue was empty when the processor last looked there, or the
    /// processor has given up its end of the scheduler.
    Lane,
    /// From either: the processor compares them, and unpacks what other threads have sent.
    Either,
    /// From the strands whose calls have been made: each goes on with the turn that it had.
    Resumed,
}

/// Why a processor has left its loop.
enum LoopLeft {
    /// The recorder is to be switched on or off. Then the loop goes on, with this strand if there is one.
    ToSwitch(Option<Ready>),
    /// The processor is to end.
    AtEnd,
}

/// Makes a stopped strand ready, from anywhere.
#[inline]
pub(crate) fn make_ready(ready: Ready) {
    with_current(|processor| match processor {
        Some(processor) if processor.pushes(&ready) => processor.count_wakeup().push(ready),
        Some(processor) if processor.keeps(&ready) => processor.count_wakeup().keep(ready),
        Some(processor) if processor.is_of_runtime(ready.strand().cluster()) => {
            processor.note_strand(Event::Readied, ready.strand(), 0, 0);
            processor.count_wakeup().make_ready_slow(ready);
        }
        _ => make_ready_from_outside(ready),
    });
}

/// Puts a strand where a processor finds it, from anywhere: a new strand, or one that was not stopped.
#[inline(never)]
pub(crate) fn enqueue(ready: Ready) {
    with_current(|processor| match processor {
        Some(processor) if processor.is_of_runtime(ready.strand().cluster()) => processor.enqueue(ready, None),
        _ => enqueue_from_outside(ready),
    });
}

/// Makes all `strands` ready, which were stopped, from anywhere. Returns their number.
pub(crate) fn make_all_ready(mut strands: Fifo) -> usize {
    with_current(|processor| match processor {
        Some(processor) => processor.make_all_ready(strands, true),
        None => std::iter::from_fn(|| strands.pop()).map(make_ready_from_outside).count(),
    })
}

/// Makes a stopped strand ready, on a thread that is no processor of the strand's runtime.
#[cold]
pub(crate) fn make_ready_from_outside(ready: Ready) {
    ready.strand().cluster().count_wakeup_from_outside();
    enqueue_from_outside(ready);
}

/// As [`enqueue`], on a thread that is no processor of the strand's runtime.
#[cold]
fn enqueue_from_outside(ready: Ready) {
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
        let address = Arc::as_ptr(&cluster).addr();
        let placement = Placement::new(post.id(), cluster.topology(), address, Arc::<Post>::clone(&post));
        let is_migrating = cluster.runtime().is_migrating();
        let processor = Processor {
            local: cluster.scheduler().attach(placement),
            identities: cluster.runtime().libc().map(Identities::new),
            migrating: is_migrating,
            pushes_for: Cell::new(Arc::as_ptr(&cluster)),
            keeps_for: Cell::new(Arc::as_ptr(&post)),
            batching: Batching::new(cluster.drivers().takes_calls()),
            cluster,
            post,
            lane: Lane::new(),
            carriers: Carriers::new(),
            supply: Cell::new(Supply::Scheduler),
            clock: Clock::new(),
            pending: Pending::default(),
            sample: Sample::new(),
            idler: Idler::new(),
            running: Running::new(),
            settling: Settling::new(is_migrating),
            stacks: Stacks::new(),
            blocks: Blocks::default(),
            recorder: Recorder::new(),
            detached: Cell::new(false),
        };
        processor.post.beat_pulse(cycles());
        processor.post.set_words(here::stack_word(), processor.running.task().address());
        processor.post.window().show(processor.view());
        processor.post.set_thread(kernel::thread_id());
        current::enter(&processor, || processor.run::<P>());
        processor.post.set_thread(0);
        processor.post.set_words(0, 0);
        processor.post.window().show(View::default());
    }

    /// Returns where the warden finds what the processor does. The processor lies on its kernel thread's stack,
    /// above all that it calls.
    fn view(&self) -> View {
        View {
            until_reading: self.clock.until_reading_word(),
            lane: self.lane.length_word(),
            end: std::ptr::from_ref(self).addr() + size_of::<Processor>(),
        }
    }

    /// Runs strands until the processor is to end.
    fn run<P: Plug>(&self) {
        let mut next = None;
        loop {
            let left = match self.switch_recorder() {
                None => self.run_strands::<P, _>(next, Off),
                Some(on) => self.run_strands::<P, _>(next, on),
            };
            match left {
                LoopLeft::ToSwitch(strand) => next = strand,
                LoopLeft::AtEnd => break,
            }
        }
        self.end_record();
        self.end_carriers();
        debug_assert!(self.lane.is_empty());
    }

    /// Runs strands until the processor is to end, or to switch its recorder on or off. The loop is compiled
    /// for both, so a recorder that is off costs nothing here.
    fn run_strands<P: Plug, R: Recording>(&self, mut next: Option<Ready>, recording: R) -> LoopLeft {
        loop {
            let strand = match next.take().or_else(|| self.next()) {
                Some(strand) => strand,
                None => match self.wait_for_work() {
                    Some(strand) => {
                        if self.is_to_record() != R::IS_ON {
                            return LoopLeft::ToSwitch(Some(strand));
                        }
                        self.note(Event::Resumed, 0, 0);
                        strand
                    }
                    None => return LoopLeft::AtEnd,
                },
            };
            let after = plug::run::<P>(strand.strand(), self);
            let is_read = self.clock.count_dispatch();
            if R::IS_ON && is_read {
                self.look_for_stall();
                self.recorder.tell_time(self.clock.now());
            }
            next = if is_read && self.look_around(after) {
                let next = self.settle_and_sample::<P, R>(strand, after, recording);
                if self.is_to_record() != R::IS_ON {
                    return LoopLeft::ToSwitch(next);
                }
                next
            } else {
                self.settle::<P, R>(strand, after, recording)
            };
        }
    }

    /// Does what a strand asked for that gave up the processor. Returns the next strand if it is at hand.
    #[inline(always)]
    fn settle<P: Plug, R: Recording>(&self, strand: Ready, after: After, recording: R) -> Option<Ready> {
        // Few enough cases for branches: more of them are a jump through a table, and the CPU predicts branches better.
        if after == After::Yielded {
            recording.yielded(&strand);
            self.swap::<R>(strand)
        } else if matches!(after, After::Parking | After::Waiting) {
            recording.stopped(&strand, after);
            self.stop::<R>(strand, after)
        } else {
            self.let_go::<P, R>(strand, after, recording)
        }
    }

    /// As [`settle`](Processor::settle), for a strand that neither yields nor stops.
    #[inline(never)]
    fn let_go<P: Plug, R: Recording>(&self, strand: Ready, after: After, recording: R) -> Option<Ready> {
        recording.gave_up(&strand, after);
        if after == After::Finished {
            self.finish(strand);
            self.signal_joiner::<P, R>()
        } else if after == After::Idle {
            strand.let_go();
            self.count_finished();
            None
        } else {
            self.dispose(strand, after, recording)
        }
    }

    /// As [`settle`](Processor::settle), and adds up what was counted. Returns the next strand, if there is one, of which it
    /// takes a sample. After a beat.
    #[cold]
    #[inline(never)]
    fn settle_and_sample<P: Plug, R: Recording>(&self, strand: Ready, after: After, recording: R) -> Option<Ready> {
        self.add_up();
        let next = self.settle::<P, R>(strand, after, recording).or_else(|| self.next());
        self.sample_wait(&next);
        next
    }

    /// Stops a strand, unless it has been woken meanwhile. Returns the next strand if it is at hand.
    #[inline]
    fn stop<R: Recording>(&self, strand: Ready, after: After) -> Option<Ready> {
        if let Some(woken) = strand.stop(after, self.clock.now()) {
            return self.swap::<R>(woken);
        }
        self.pending.count_stop();
        None
    }

    /// Ends the life of a strand that has finished.
    #[inline]
    fn finish(&self, strand: Ready) {
        strand.retire();
        self.count_finished();
    }

    /// Counts a strand that has finished, or a mailbox that is idle.
    #[inline]
    pub(crate) fn count_finished(&self) {
        self.post.tally().count_finished();
        self.cluster.runtime().one_finished();
    }

    /// Does what a strand asked for that gave up the processor for a rare reason. Returns the next strand
    /// if it is at hand.
    #[inline(never)]
    fn dispose<R: Recording>(&self, strand: Ready, after: After, recording: R) -> Option<Ready> {
        match after {
            After::Left => {
                strand.let_go();
                let (carrier, after) = self.carriers.take_leaving()?;
                recording.gave_up(&carrier, after);
                match after {
                    After::Yielded => self.swap::<R>(carrier),
                    After::Parking | After::Waiting => self.stop::<R>(carrier, after),
                    _ => self.dispose(carrier, after, recording),
                }
            }
            After::Resting => {
                self.keep_carrier(strand);
                None
            }
            After::Declined => {
                strand.stamp(self.clock.now());
                self.send(strand);
                None
            }
            _ => {
                strand.stamp(self.clock.now());
                self.pass_on(strand);
                None
            }
        }
    }

    /// Does what is due when the clock has been read. `after` says how the last strand stopped. Returns
    /// whether a beat was due.
    #[inline]
    fn look_around(&self, after: After) -> bool {
        self.post.beat_pulse(self.clock.now());
        self.see_arrivals();
        if self.batching.is_due(self.clock.now()) {
            self.empty_outbox_now();
        }
        let is_beat_due = self.clock.is_beat_due();
        if is_beat_due {
            self.beat(after);
        }
        is_beat_due
    }

    /// Lets the next search unpack what other threads have sent. They send to a busy processor at the
    /// price of one cache miss for many strands, because it looks only now and then.
    #[inline]
    fn see_arrivals(&self) {
        if self.post.has_arrivals() || !self.post.newcomers().is_empty() {
            self.draw_from(Supply::Either);
        }
    }

    /// Does what is due every 16 µs. `after` says how the last strand stopped.
    #[cold]
    fn beat(&self, after: After) {
        // See `beat_next`.
        fork::check();
        self.clock.beat();
        let now = self.clock.now();
        let drivers = self.cluster.drivers();
        let written = self.recorder.written();
        drivers.fire_due();
        drivers.look_at_times(self.post.id(), now, after == After::Yielded);
        self.help(now);
        self.note_looked(written);
        if !self.detached.get() {
            self.local.beat(now);
            if self.supply.get() == Supply::Lane {
                self.draw_from(Supply::Either);
            }
        }
        if self.lane.relieve_background(now, |ready_at| self.take_deferred(ready_at)) {
            self.draw_from(Supply::Either);
        }
        self.reconsider(now);
        if self.post.order() != Order::Serve {
            self.detach();
        }
    }

    /// Returns the next strand to run.
    #[inline]
    fn next(&self) -> Option<Ready> {
        match self.supply.get() {
            Supply::Scheduler => self.local.next(self.clock.now()),
            Supply::Lane => self.lane.pop().or_else(|| self.next_of_either()),
            Supply::Either => self.next_of_either(),
            Supply::Resumed => self.next_resumed(),
        }
    }

    /// Returns the next strand to run, and notes where the strands after it come from. Weighs the lane
    /// against the scheduler's queue if both have strands.
    #[inline(never)]
    fn next_of_either(&self) -> Option<Ready> {
        let now = self.clock.now();
        if self.post.has_arrivals() {
            self.unpack_arrivals();
        }
        if !self.post.newcomers().is_empty() {
            self.make_all_ready(self.post.newcomers().take(), false);
        }
        let is_detached = self.detached.get();
        if self.lane.is_empty() {
            self.draw_from(if is_detached { Supply::Lane } else { Supply::Scheduler });
            return if is_detached { None } else { self.local.next(now) };
        }
        let queue = if is_detached { None } else { self.local.claim() };
        self.draw_from(if queue.is_none() { Supply::Lane } else { Supply::Either });
        if self.lane.gives_way_to(queue) {
            // Another processor may have taken the strand. Then the scheduler has noted that this
            // processor waits, which has to be undone.
            if let Some(strand) = self.local.next(now) {
                return Some(strand);
            }
            self.stop_waiting();
        }
        self.lane.pop()
    }

    /// Sets where the next strand comes from, after the strands whose calls have been made.
    #[inline]
    fn draw_from(&self, supply: Supply) {
        let supply = if self.batching.has_resumed() { Supply::Resumed } else { supply };
        self.supply.set(supply);
        self.open_way_to_scheduler();
    }

    /// Sets whether strands go straight to the scheduler's end.
    #[inline]
    fn open_way_to_scheduler(&self) {
        let is_open = self.supply.get() == Supply::Scheduler && !self.recorder.is_on();
        self.pushes_for.set(if is_open { Arc::as_ptr(&self.cluster) } else { std::ptr::null() });
    }

    /// Opens the direct ways for strands, or closes them while the processor records. So a wake-up and a spawn have
    /// no test of their own for the recorder.
    fn open_direct_ways(&self) {
        self.open_way_to_scheduler();
        self.keeps_for.set(if self.recorder.is_on() { std::ptr::dangling() } else { Arc::as_ptr(&self.post) });
    }

    /// Makes a strand of this cluster ready. Returns the next strand if it is at hand.
    #[inline]
    fn swap<R: Recording>(&self, strand: Ready) -> Option<Ready> {
        let now = self.clock.now();
        let is_pushed = if R::IS_ON { self.may_push(&strand) } else { self.pushes(&strand) };
        if is_pushed {
            strand.stamp(now);
            return match self.local.exchange(strand, now) {
                Ok(next) => Some(next),
                Err(strand) => {
                    self.push(strand);
                    None
                }
            };
        }
        let is_kept = if R::IS_ON { self.may_keep(&strand) } else { self.keeps(&strand) };
        if !is_kept {
            self.make_ready_slow(strand);
            return None;
        }
        if self.supply.get() == Supply::Lane {
            strand.stamp(now);
            return Some(self.lane.exchange(strand));
        }
        self.keep(strand);
        None
    }

    /// Signals the party that joined the strand which has just ended. If that makes a strand of this
    /// cluster ready, returns the next strand if it is at hand.
    fn signal_joiner<P: Plug, R: Recording>(&self) -> Option<Ready> {
        let ready = P::signal(self.running.take_owed()?)?;
        if std::ptr::eq(ready.strand().cluster(), &*self.cluster) {
            if R::IS_ON {
                self.note_strand(Event::Readied, ready.strand(), 0, 1);
            }
            return self.count_wakeup().swap::<R>(ready);
        }
        make_ready(ready);
        None
    }

    /// As the function [`enqueue`], for a strand of this runtime. Records `event`, if the processor records.
    #[inline(always)]
    pub(crate) fn enqueue(&self, ready: Ready, event: Option<Event>) {
        if self.pushes(&ready) {
            self.push(ready);
        } else if self.keeps(&ready) {
            self.keep(ready);
        } else {
            if let Some(event) = event {
                self.note_strand(event, ready.strand(), 0, 0);
            }
            self.make_ready_slow(ready);
        }
    }

    /// Says whether the strand goes straight to this processor's end of the scheduler. Not while the processor records.
    #[inline(always)]
    fn pushes(&self, ready: &Ready) -> bool {
        std::ptr::eq(ready.strand().cluster(), self.pushes_for.get()) && Processor::competes_anywhere(ready)
    }

    /// Says whether the strand goes straight to this processor's lane. Not while the processor records.
    #[inline(always)]
    fn keeps(&self, ready: &Ready) -> bool {
        std::ptr::eq(ready.strand().post_address(), self.keeps_for.get().cast())
            && ready.priority() != Priority::Background
    }

    /// Says whether the strand goes to this processor's end of the scheduler, and all strands come from
    /// there.
    #[inline(always)]
    fn may_push(&self, ready: &Ready) -> bool {
        self.supply.get() == Supply::Scheduler
            && std::ptr::eq(ready.strand().cluster(), Arc::as_ptr(&self.cluster))
            && Processor::competes_anywhere(ready)
    }

    /// Says whether the strand goes to this processor's lane, and competes there.
    #[inline(always)]
    fn may_keep(&self, ready: &Ready) -> bool {
        std::ptr::eq(ready.strand().post_address(), Arc::as_ptr(&self.post).cast())
            && ready.priority() != Priority::Background
    }

    /// Says whether the strand is not bound, and no background strand.
    #[inline(always)]
    fn competes_anywhere(ready: &Ready) -> bool {
        !ready.strand().is_bound(u8::MAX) && ready.priority() != Priority::Background
    }

    #[inline(always)]
    fn push(&self, ready: Ready) {
        let now = self.clock.now();
        ready.stamp(now);
        let wake = self.local.push(ready, now);
        self.cluster.idle().notify(wake);
    }

    /// Puts a strand that is bound to this processor, and competes, into the lane.
    #[inline(always)]
    fn keep(&self, ready: Ready) {
        ready.stamp(self.clock.now());
        self.lane.push(ready);
        if self.supply.get() == Supply::Scheduler {
            self.draw_from(Supply::Either);
        }
    }

    /// Makes a strand ready that takes no direct way.
    #[inline(never)]
    fn make_ready_slow(&self, ready: Ready) {
        let now = self.clock.now();
        ready.stamp(now);
        match ready.strand().bound_to() {
            Some(post) if std::ptr::eq(post, &*self.post) => {
                if ready.priority() == Priority::Background {
                    self.lane.push_background(ready)
                } else {
                    self.keep(ready)
                }
            }
            None if self.is_for_scheduler(&ready) => {
                let wake = self.local.push(ready, now);
                if self.supply.get() == Supply::Lane {
                    self.draw_from(if self.lane.is_empty() { Supply::Scheduler } else { Supply::Either });
                }
                self.cluster.idle().notify(self.urge(wake));
            }
            _ => self.pass_on(ready),
        }
    }

    /// Says whether a strand that is not bound goes to this processor's end of the scheduler.
    fn is_for_scheduler(&self, ready: &Ready) -> bool {
        !self.detached.get()
            && std::ptr::eq(ready.strand().cluster(), &*self.cluster)
            && ready.priority() != Priority::Background
    }

    /// Returns the wake for a strand in the scheduler's queue, which does not know of the lane: a lone
    /// strand there is not the one that runs next if the lane has strands.
    fn urge(&self, wake: Wake) -> Wake {
        if wake == Wake::Lone && !self.lane.is_empty() { Wake::Backlog } else { wake }
    }

    /// Makes all `strands` ready; pushes those for this processor's end of the scheduler as one
    /// batch. Returns their number. `were_stopped` says whether these are wake-ups.
    fn make_all_ready(&self, mut strands: Fifo, were_stopped: bool) -> usize {
        let now = self.clock.now();
        let resumes = self.batching.resumes();
        let (mut others, mut count, mut elsewhere) = (Fifo::new(), 0, 0);
        let mut ours = std::iter::from_fn(|| {
            loop {
                let ready = strands.pop()?;
                count += 1;
                ready.stamp(now);
                self.note_strand(Event::Readied, ready.strand(), 0, 0);
                if resumes && self.may_resume(&ready) {
                    self.batching.resume(ready);
                } else if self.may_keep(&ready) {
                    self.keep(ready);
                } else if ready.strand().bound_to().is_none() && self.is_for_scheduler(&ready) {
                    return Some(ready);
                } else {
                    others.push(ready);
                    elsewhere += 1;
                }
            }
        });
        // A sentinel departs for a lone strand of an event or timer; `depart` notifies if it has to.
        let is_own = |wake| wake == Wake::Lone && self.idler.is_sentinel();
        self.local.push_all(&mut ours, now, &mut |wake| {
            if self.supply.get() == Supply::Lane {
                self.draw_from(Supply::Either);
            }
            let wake = self.urge(wake);
            if !is_own(wake) {
                self.cluster.idle().notify(wake);
            }
        });
        while let Some(ready) = others.pop() {
            if were_stopped { make_ready(ready) } else { self.make_ready_slow(ready) }
        }
        if were_stopped {
            self.pending.count_wakeups((count - elsewhere) as u32);
        }
        if resumes {
            self.draw_from(Supply::Either);
        } else {
            self.batching.expect(count - elsewhere, now);
        }
        count
    }

    /// Gives a strand to the cluster that it belongs to.
    fn pass_on(&self, ready: Ready) {
        self.cluster.cluster_of(&ready).accept(ready);
    }

    #[cold]
    fn unpack_arrivals(&self) {
        let mut arrivals = self.post.take_arrivals();
        let mut count = 0;
        while let Some(strand) = arrivals.pop() {
            self.lane.receive(strand);
            count += 1;
        }
        self.batching.expect(count, self.clock.now());
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
                self.post.bound() == 0
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
        self.draw_from(Supply::Either);
        self.end_carriers();
        self.cluster.drivers().abandon(self.post.id());
        self.cluster.idle().relieve();
        self.make_all_ready(self.post.newcomers().take_last(), false);
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
