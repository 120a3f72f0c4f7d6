//! Strands: what schedulers run.
//!
//! A strand is an intrusive header at the start of something larger, a fibre
//! for instance. Three types stand for it, each of which says what its holder
//! may do:
//!
//! - [`Ready`]: the strand is ready and belongs to the holder, who either runs
//!   it or passes it on. There is never more than one.
//! - [`StrandArc`]: a counted reference. Its holder may unpark the strand.
//! - a parked strand has no owner; unparking it makes a `Ready`.
//!
//! This is a storage file: all the `unsafe` about a strand's lifetime is here.
#![allow(unsafe_code)]

pub(crate) mod blocks;
mod fifo;
mod inbox;
pub(crate) mod join;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
mod state;

pub use fifo::Claim;
pub(crate) use fifo::{Fifo, Levels, PassedOver};
pub(crate) use inbox::Inbox;
pub(crate) use state::{State, Woken};

use crate::base::atomic::{Acquire, AtomicBool, AtomicU32, AtomicU64, Relaxed, Release, fence};
use crate::fibre::record::{FIBRE, Record};
use crate::processor::cluster::ClusterShared;
use crate::processor::{Post, Processor};
use state::Commit;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// How urgent a strand is. A processor runs the most urgent of the strands that it has;
/// strands of one level share fairly.
///
/// # No level starves
///
/// A level that waits while more urgent strands are ready gets one turn in 64, so that a
/// strand which holds a lock ends its work in the end, and whoever waits for that lock
/// goes on, whatever their levels are. A turn lasts until the strand gives up its
/// processor. [`Background`](Priority::Background) has a bound of its own. Inheriting the
/// priority of those who wait was rejected: semaphores, channels and conditions have no
/// holder that could inherit it.
///
/// That is so with the schedulers of this crate. One that an application has written
/// decides by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before everything else.
    High = 0,
    /// What a fibre has unless it asks for something else.
    #[default]
    Normal = 1,
    /// After everything normal.
    Low = 2,
    /// When the processor finds nothing else to run in the whole cluster; otherwise a
    /// strand that has waited for 10 ms gets a turn, at most one every 10 ms on each
    /// processor.
    Background = 3,
}

impl Priority {
    pub(crate) const LEVELS: usize = 3;
}

/// What a kind of strand has to offer.
pub(crate) struct Kind {
    /// Runs the strand until it gives up the processor.
    pub(crate) run: fn(&Strand, &Processor) -> After,
    /// Frees the strand's memory.
    ///
    /// # Safety
    /// No reference to the strand is left.
    pub(crate) free: unsafe fn(NonNull<Strand>),
}

/// Why a strand gave up its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It is ready to go on.
    Yielded,
    /// It wants to park, unless a token has come.
    Parking,
    /// It waits for a signal.
    Waiting,
    /// It is ready, and `Strand::cluster` names another cluster by now.
    Moving,
    /// It will not run again.
    Finished,
}

/// Reasons for which a started strand may not leave its processor.
pub(crate) mod bound {
    /// The runtime does not let started fibres migrate.
    pub(crate) const STARTED: u8 = 1;
    /// The fibre asked for it.
    pub(crate) const PINNED: u8 = 2;
}

/// The larger thing that `strand` is the head of.
///
/// A reference to a strand may be used for the strand alone: what lies behind it is beyond the
/// memory that the reference was made for. So the pointer to the whole is not derived from
/// `strand` but taken from [`Ready::of_new`], which got the pointer that the memory was
/// allocated with and exposed its provenance; of `strand` only the address counts. This costs no
/// instruction, and it does not matter by which way a reference to the strand has come here.
#[inline(always)]
pub(crate) fn container<C>(strand: NonNull<Strand>) -> NonNull<C> {
    NonNull::with_exposed_provenance(strand.addr())
}

/// How much of a stack is fetched before its fibre runs: the record at its top
/// and the line below. Measured with 500 fibres that unpark each other: more
/// lines make no difference.
#[cfg(not(sinew_loom))]
const PREFETCHED_LINES: usize = 2;

/// The header of everything that a scheduler runs. One cache line: what it is the head of is
/// aligned to that. Not the strand itself, for then what lies behind it would be padded to
/// whole lines before its own tail begins.
#[repr(C)]
pub(crate) struct Strand {
    /// The next strand of the queue that this one is in. Owner: the `Ready`.
    next: Cell<Option<NonNull<Strand>>>,
    /// When it became ready, in ticks. Owner: the `Ready`.
    ready_at: Cell<u64>,
    /// References counted: one for being alive, one for each `StrandArc`.
    refs: AtomicU32,
    state: State,
    kind: &'static Kind,
    /// Where it runs. Written by the strand itself while it runs; read by
    /// whoever unparks it, after the acquire of the state word.
    cluster: AtomicPtr<ClusterShared>,
    /// The post of the processor that it is bound to, while `bound` is not 0.
    /// Written and read as `cluster` is.
    home: AtomicPtr<Post>,
    /// The reasons of [`bound`]. Written and read as `cluster` is.
    bound: AtomicU8,
    priority: Priority,
    after: Cell<After>,
    /// A flag for the kind of strand, which says who writes it.
    flag: AtomicBool,
    /// A word for the kind of strand, which says who writes it, on the line that a
    /// dispatch reads anyway.
    own: AtomicU64,
}

#[cfg(not(sinew_loom))]
const _: () = assert!(size_of::<Strand>() == 64, "a strand is one cache line");

impl Strand {
    /// A strand that is alive and has one more reference, for the first
    /// [`StrandArc`]; see [`Ready::of_new`].
    pub(crate) fn new(kind: &'static Kind, cluster: &ClusterShared, priority: Priority) -> Self {
        Strand::of(kind, std::ptr::from_ref(cluster), priority)
    }

    fn of(kind: &'static Kind, cluster: *const ClusterShared, priority: Priority) -> Self {
        Strand {
            next: Cell::new(None),
            ready_at: Cell::new(0),
            refs: AtomicU32::new(2),
            state: State::new(),
            kind,
            cluster: AtomicPtr::new(cluster.cast_mut()),
            home: AtomicPtr::new(std::ptr::null_mut()),
            bound: AtomicU8::new(0),
            priority,
            after: Cell::new(After::Yielded),
            flag: AtomicBool::new(false),
            own: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Asks the CPU for what running the strand will need, a fibre's stack, and
    /// for the header of the strand behind it, so that this finds its own header
    /// there when its turn comes.
    #[cfg(not(sinew_loom))]
    #[inline(always)]
    fn prefetch(&self) {
        use crate::base::prefetch::prefetch;
        prefetch(self.next.get().map_or(std::ptr::null(), |next| next.as_ptr().cast_const().cast()));
        let own = std::ptr::without_provenance::<u8>(self.own.load(Relaxed) as usize);
        for line in 0..PREFETCHED_LINES {
            prefetch(own.wrapping_sub(64 * line));
        }
    }

    /// A model has no caches.
    #[cfg(sinew_loom)]
    fn prefetch(&self) {}

    /// The word of the strand's kind.
    #[inline(always)]
    pub(crate) fn own(&self) -> &AtomicU64 {
        &self.own
    }

    /// The flag of the strand's kind.
    #[inline(always)]
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The cluster that the strand belongs to.
    #[inline]
    pub(crate) fn cluster(&self) -> &ClusterShared {
        // SAFETY: clusters live until their runtime has seen its last strand
        // finish, and only a live strand is asked for its cluster.
        unsafe { &*self.cluster.load(Ordering::Relaxed) }
    }

    /// Makes `cluster` the one that the strand belongs to. By the strand itself.
    pub(crate) fn set_cluster(&self, cluster: &ClusterShared) {
        self.cluster.store(std::ptr::from_ref(cluster).cast_mut(), Ordering::Relaxed);
    }

    /// The post that the strand may not leave, if it is bound.
    #[inline]
    pub(crate) fn bound_to(&self) -> Option<&Post> {
        if self.bound.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // SAFETY: `bind` stored it; posts live as long as their cluster.
        unsafe { self.home.load(Ordering::Relaxed).as_ref() }
    }

    /// Why it gave up its processor last. By the strand, then by its processor.
    #[inline(always)]
    pub(crate) fn after(&self) -> &Cell<After> {
        &self.after
    }

    pub(crate) fn is_bound(&self, reason: u8) -> bool {
        self.bound.load(Ordering::Relaxed) & reason != 0
    }

    /// Binds the strand to the processor that runs it, whose post this is, for
    /// `reason`. By that processor or by the strand itself.
    pub(crate) fn bind(&self, post: &Post, reason: u8) {
        let before = self.bound.load(Ordering::Relaxed);
        if before == 0 {
            post.bound_one();
        }
        self.home.store(std::ptr::from_ref(post).cast_mut(), Ordering::Relaxed);
        self.bound.store(before | reason, Ordering::Relaxed);
    }

    /// Takes `reason` away again. By its processor or by itself.
    pub(crate) fn unbind(&self, reason: u8) {
        let before = self.bound.load(Ordering::Relaxed);
        let after = before & !reason;
        if before != 0 && after == 0 {
            self.bound_to().expect("a bound strand has a home").freed_one();
        }
        self.bound.store(after, Ordering::Relaxed);
    }

    /// Unparks the strand: `Some` if it was parked and is now the caller's.
    #[inline]
    pub(crate) fn unpark(&self) -> Option<Ready> {
        self.woken(self.state.unpark())
    }

    /// Signals the strand, as [`State::signal`] says: `Some` if it had stopped and
    /// is now the caller's.
    #[inline]
    pub(crate) fn signal(&self) -> Option<Ready> {
        self.woken(self.state.signal())
    }

    /// As [`unpark`](Strand::unpark), by a transition of the strand's kind that ends with
    /// one.
    #[inline(always)]
    pub(crate) fn woken(&self, woken: Woken) -> Option<Ready> {
        match woken {
            Woken::LeaveIt => None,
            // SAFETY: ending a stop has one winner, and a strand that has stopped
            // has no other owner.
            Woken::Enqueue => Some(Ready(NonNull::from(self))),
        }
    }

    /// Drops one reference.
    ///
    /// # Safety
    /// The caller owns the reference and does not use it again.
    unsafe fn release(strand: NonNull<Strand>) {
        // SAFETY: the caller's reference keeps the strand alive until here.
        let header = unsafe { strand.as_ref() };
        // Release: what this holder did with the strand happens before it is
        // freed; pairs with the fence below.
        if header.refs.fetch_sub(1, Release) == 1 {
            fence(Acquire);
            let free = header.kind.free;
            // SAFETY: that was the last reference.
            unsafe { free(strand) };
        }
    }
}

/// A strand that is ready to run: a scheduler takes it, keeps it in any order
/// that it likes, and gives it back when a processor asks. It must not be
/// dropped: the thread of control that it stands for would be lost, so that
/// ends the process.
pub struct Ready(NonNull<Strand>);

// SAFETY: a ready strand may be run by any processor that its scheduler gives
// it to; strands that are bound to one never reach a scheduler.
unsafe impl Send for Ready {}

impl Ready {
    /// The first owner of a strand that was just made.
    ///
    /// # Safety
    /// `strand` was never given out before, and will be freed by its `Kind`. The pointer may be
    /// used for all of the memory that the strand is the head of.
    pub(crate) unsafe fn of_new(strand: NonNull<Strand>) -> (Ready, StrandArc) {
        // For `container`.
        strand.as_ptr().expose_provenance();
        (Ready(strand), StrandArc(strand))
    }

    /// How urgent it is.
    #[inline]
    pub fn priority(&self) -> Priority {
        self.strand().priority
    }

    /// When it became ready, on the clock whose present time a scheduler is
    /// told at each call.
    #[inline]
    pub fn ready_at(&self) -> u64 {
        self.strand().ready_at.get()
    }

    #[inline]
    pub(crate) fn stamp(&self, now: u64) {
        self.strand().ready_at.set(now);
    }

    /// The address of the cluster that it belongs to.
    pub(crate) fn cluster_address(&self) -> usize {
        self.strand().cluster.load(Ordering::Relaxed).addr()
    }

    #[inline]
    pub(crate) fn strand(&self) -> &Strand {
        // SAFETY: a strand is not freed before it has finished, and it cannot
        // finish while it is ready.
        unsafe { self.0.as_ref() }
    }

    /// Runs it on `processor` until it gives up.
    #[inline(always)]
    pub(crate) fn run(&self, processor: &Processor) -> After {
        let strand = self.strand();
        // The usual kind without an indirect call; see `Record::run`.
        if std::ptr::eq(strand.kind, &FIBRE) {
            Record::run(strand, processor)
        } else {
            (strand.kind.run)(strand, processor)
        }
    }

    /// Lets the strand stop, which gave up its processor to park or to wait:
    /// gives it back if it had been woken before.
    #[inline]
    pub(crate) fn stop(self, after: After) -> Option<Ready> {
        let state = &self.strand().state;
        let commit = if after == After::Parking { state.commit_park() } else { state.commit_wait() };
        match commit {
            Commit::Stopped => {
                std::mem::forget(self);
                None
            }
            Commit::Woken => Some(self),
        }
    }

    /// Ends the life of a strand that has finished.
    pub(crate) fn retire(self) {
        self.strand().state.finish();
        let strand = self.into_raw();
        // SAFETY: this is the reference for being alive; `self` is gone.
        unsafe { Strand::release(strand) };
    }

    #[inline]
    fn into_raw(self) -> NonNull<Strand> {
        let strand = self.0;
        std::mem::forget(self);
        strand
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        crate::base::fatal(match std::thread::panicking() {
            true => "a scheduler panicked with a strand in its hands",
            false => "a scheduler dropped a strand that was ready to run",
        });
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("priority", &self.priority()).field("ready_at", &self.ready_at()).finish()
    }
}

/// A counted reference to a strand: it may be unparked, and its memory stays.
pub(crate) struct StrandArc(NonNull<Strand>);

// SAFETY: what a holder can reach of the strand is atomic or never changes.
unsafe impl Send for StrandArc {}
// SAFETY: as above.
unsafe impl Sync for StrandArc {}

impl StrandArc {
    /// A new reference to a strand that is known to be alive.
    pub(crate) fn new(strand: &Strand) -> Self {
        // Relaxed: the caller's access to the strand orders what matters.
        if strand.refs.fetch_add(1, Relaxed) > u32::MAX / 2 {
            crate::base::fatal("more than two thousand million handles to one strand");
        }
        StrandArc(NonNull::from(strand))
    }

    #[inline]
    pub(crate) fn strand(&self) -> &Strand {
        // SAFETY: the reference counted for `self` keeps it.
        unsafe { self.0.as_ref() }
    }

    /// The reference as an address, for [`from_raw`](StrandArc::from_raw).
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Strand> {
        let strand = self.0;
        std::mem::forget(self);
        strand
    }

    /// # Safety
    /// From `into_raw`; each reference is taken back once.
    #[inline]
    pub(crate) unsafe fn from_raw(strand: NonNull<Strand>) -> Self {
        StrandArc(strand)
    }
}

impl Clone for StrandArc {
    fn clone(&self) -> Self {
        StrandArc::new(self.strand())
    }
}

impl Drop for StrandArc {
    fn drop(&mut self) {
        // SAFETY: this reference is ours and is not used again.
        unsafe { Strand::release(self.0) };
    }
}

#[cfg(test)]
impl Strand {
    /// A strand that belongs to no cluster and is never run, for models and
    /// simulations of queues.
    pub(crate) fn for_model(kind: &'static Kind) -> Strand {
        Strand::of(kind, std::ptr::null(), Priority::Normal)
    }
}
