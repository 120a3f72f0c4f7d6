//! The part of a processor that other threads see.

use super::cluster::ClusterShared;
use super::drain::Tally;
use super::meters::Meters;
use super::newcomers::Newcomers;
use super::outbox::Outbox;
use super::recorder::RingPlace;
use super::stall::Window;
use crate::base::describe::Entry;
use crate::base::directory::{self, Directory, Number};
use crate::base::peek;
use crate::base::probe;
use crate::sched::ProcessorId;
use crate::strand::{Fifo, Inbox, Ready};
use crossbeam_utils::CachePadded;
use std::mem::offset_of;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// There is one post for each processor number that the cluster has used. A post stays when its
/// processor ends, and serves the next processor with that number.
#[repr(C)]
pub(crate) struct Post {
    id: ProcessorId,
    /// The address of the cluster, for readers of memory.
    cluster: usize,
    /// Where the kernel thread keeps the stack that it runs on, for readers of memory; 0 if there is no thread.
    /// Written by the processor only.
    stack_word: AtomicUsize,
    /// Where the processor keeps the task that it runs. As above.
    task_word: AtomicUsize,
    /// Its number in the directory of posts.
    number: Number,
    /// Strands bound to this processor that other threads have made ready. Any thread puts, the
    /// processor takes.
    arrivals: CachePadded<Inbox>,
    newcomers: CachePadded<Newcomers>,
    outbox: CachePadded<Outbox>,
    /// An [`Order`]. Written by the thread that adds, removes or stops the processor.
    order: AtomicU8,
    /// The number of strands that are bound to the processor. Written by the processor only.
    bound: AtomicU32,
    /// How busy the processor is, in residents. Written by the processor only.
    load: AtomicU32,
    /// When the processor read its clock last. Written by the processor only.
    pulse: AtomicU64,
    /// The processor's kernel thread, or 0. Written by the processor only.
    thread: AtomicI32,
    /// A [`Hold`]. Written by the warden only.
    hold: AtomicU8,
    /// The last look of the warden.
    seen: Mutex<Seen>,
    /// On lines of its own: the processor writes there often, and others rarely read.
    meters: CachePadded<Meters>,
    /// The ring of the flight recorder, if the processor has recorded.
    ring: RingPlace,
    /// The part of the running strand that the warden sees.
    window: Window,
}

/// The posts, for readers of memory.
static POSTS: Directory = Directory::new();

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::place("posts", &POSTS),
    Entry::number("post.index", offset_of!(Post, id)),
    Entry::number("post.cluster", offset_of!(Post, cluster)),
    Entry::number("post.stack_word", offset_of!(Post, stack_word)),
    Entry::number("post.task_word", offset_of!(Post, task_word)),
    Entry::number("post.thread", offset_of!(Post, thread)),
    Entry::number("post.pulse", offset_of!(Post, pulse)),
    Entry::number("post.hold", offset_of!(Post, hold)),
    Entry::number("post.bound", offset_of!(Post, bound)),
    Entry::number("post.meters", offset_of!(Post, meters)),
];

impl Drop for Post {
    fn drop(&mut self) {
        POSTS.leave(self.number);
    }
}

/// The reason why a processor is held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hold {
    /// Nothing: it dispatches strands, or sleeps.
    None = 0,
    /// A strand runs without giving way, or the kernel does not give the processor a CPU.
    Computing = 1,
    /// A strand waits in the kernel, for most of the time.
    Blocked = 2,
}

/// A look of the warden at the kernel thread of a processor that is held up.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// When the look was, in cycles; 0 if the processor was not held up.
    pub(super) at: u64,
    /// The time for which the thread has run or has waited for a CPU, since it began.
    pub(super) awake: Duration,
}

/// What a processor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Run strands.
    Serve = 0,
    /// Run only strands that are bound to the processor, and end after the last of them.
    Retire = 1,
    /// End: all strands of the runtime have finished.
    Stop = 2,
}

impl Post {
    pub(super) fn new(id: ProcessorId, cluster: usize) -> Arc<Post> {
        let post = |number| Post {
            id,
            cluster,
            stack_word: AtomicUsize::new(0),
            task_word: AtomicUsize::new(0),
            number,
            arrivals: CachePadded::new(Inbox::new()),
            newcomers: CachePadded::new(Newcomers::new()),
            outbox: CachePadded::new(Outbox::new()),
            order: AtomicU8::new(Order::Serve as u8),
            bound: AtomicU32::new(0),
            load: AtomicU32::new(0),
            pulse: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            hold: AtomicU8::new(0),
            seen: Mutex::default(),
            meters: CachePadded::new(Meters::new()),
            ring: RingPlace::new(),
            window: Window::default(),
        };
        directory::enter(&POSTS, post)
    }

    pub(crate) fn id(&self) -> ProcessorId {
        self.id
    }

    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Relaxed) {
            0 => Order::Serve,
            1 => Order::Retire,
            _ => Order::Stop,
        }
    }

    /// Says whether the processor takes strands in: it is not to retire.
    pub(super) fn is_serving(&self) -> bool {
        self.order() == Order::Serve
    }

    pub(super) fn give_order(&self, order: Order) {
        self.order.store(order as u8, Ordering::Relaxed);
    }

    pub(super) fn bound_one(&self) {
        self.bound.store(self.bound() + 1, Ordering::Relaxed);
    }

    pub(super) fn freed_one(&self) {
        self.bound.store(self.bound() - 1, Ordering::Relaxed);
    }

    /// Returns the number of strands that are bound to the processor.
    #[inline(always)]
    pub(crate) fn bound(&self) -> u32 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Returns what the processor has to carry: fibres that live there, fibres that are to begin
    /// there, and how busy it is.
    pub(super) fn burden(&self) -> u32 {
        self.bound() + self.newcomers.expected() + self.load.load(Ordering::Relaxed)
    }

    /// Notes that the processor read its clock.
    #[inline(always)]
    pub(super) fn beat_pulse(&self, now: u64) {
        self.pulse.store(now, Ordering::Relaxed);
    }

    pub(super) fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    /// Notes that a kernel thread serves the post; 0 if none does.
    pub(super) fn set_thread(&self, thread: i32) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// Notes where readers of memory find what the processor runs; zeros if it ends.
    pub(super) fn set_words(&self, stack_word: usize, task_word: usize) {
        self.stack_word.store(stack_word, Ordering::Relaxed);
        self.task_word.store(task_word, Ordering::Relaxed);
    }

    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    pub(crate) fn has_thread(&self) -> bool {
        self.thread() != 0
    }

    pub(super) fn hold(&self) -> Hold {
        match self.hold.load(Ordering::Relaxed) {
            0 => Hold::None,
            1 => Hold::Computing,
            _ => Hold::Blocked,
        }
    }

    /// Notes a look of the warden. Returns the one before.
    pub(super) fn note_seen(&self, seen: Seen) -> Seen {
        std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), seen)
    }

    pub(super) fn set_hold(&self, hold: Hold) {
        if self.hold() != hold {
            if hold != Hold::None {
                probe::stall(std::ptr::from_ref(self).cast(), hold as usize);
                self.ring.hold();
            }
            self.hold.store(hold as u8, Ordering::Relaxed);
        }
    }

    pub(super) fn set_load(&self, load: u32) {
        if self.load.load(Ordering::Relaxed) != load {
            self.load.store(load, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the top of the stack that runs; 0 if it is the kernel thread's own one. By any thread, and by a
    /// signal handler.
    pub(super) fn stack_top(&self) -> usize {
        peek::word(self.stack_word.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Returns the address of the task that runs; 0 if there is none. As above.
    pub(super) fn task(&self) -> usize {
        peek::word(self.task_word.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Returns the number of strands in the inbox, or `most` if there are more. As above.
    pub(super) fn count_arrivals(&self, most: usize) -> usize {
        self.arrivals.peek_length(most)
    }

    pub(super) fn ring(&self) -> &RingPlace {
        &self.ring
    }

    /// The offset of the word with the address of the ring.
    pub(crate) const RING: usize = std::mem::offset_of!(Post, ring);

    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        self.meters.tally()
    }

    #[inline]
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Puts a strand that is bound to this processor into the inbox, and wakes the processor.
    pub(super) fn deliver(&self, cluster: &ClusterShared, ready: Ready) {
        self.arrivals.put(ready);
        cluster.idle().notify_processor(self.id);
    }

    #[inline]
    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(super) fn newcomers(&self) -> &Newcomers {
        &self.newcomers
    }

    /// Sends a fibre that has not begun to this post, and wakes the processor. Returns the fibres that
    /// the caller has to give to others.
    pub(super) fn send(&self, cluster: &ClusterShared, fibre: Ready) -> Fifo {
        fibre.strand().send_to(std::ptr::from_ref(self).cast());
        let others = self.newcomers.send(fibre, || self.is_serving());
        cluster.idle().notify_processor(self.id);
        others
    }

    #[inline(always)]
    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    pub(super) fn take_arrivals(&self) -> Fifo {
        self.arrivals.take_all()
    }
}
