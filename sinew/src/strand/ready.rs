//! The two ways to hold a strand: as the one owner of a ready strand, and by a counted reference.
#![allow(unsafe_code)]

use super::header::Strand;
use super::kind::{After, Past, Weight};
use super::priority::Priority;
use super::state::{Commit, Woken};
use crate::base::atomic::{Acquire, Relaxed, Release, fence};
use crate::base::probe;
use std::ptr::NonNull;

/// A strand that is ready to run. A scheduler takes it, keeps it in any order that it likes, and gives
/// it back when a processor asks. To drop it ends the process: the thread of control that it stands for
/// would be lost.
pub struct Ready(pub(super) NonNull<Strand>);

// SAFETY: any processor that its scheduler gives it to may run a ready strand. Strands that are bound
// to one processor never reach a scheduler.
unsafe impl Send for Ready {}

impl Ready {
    /// Makes the owner of a new strand, and the first reference to it.
    ///
    /// # Safety
    /// `strand` was never given out before, and will be freed by its `Kind`. The pointer may be
    /// used for all of the memory that the strand is the head of.
    pub(crate) unsafe fn of_new(strand: NonNull<Strand>) -> (Ready, StrandArc) {
        // For `container`.
        strand.as_ptr().expose_provenance();
        (Ready(strand), StrandArc(strand))
    }

    /// Returns how urgent the strand is.
    #[inline]
    pub fn priority(&self) -> Priority {
        self.strand().priority
    }

    /// Returns when the strand became ready, in cycles, on the clock whose present time a scheduler is
    /// told at each call.
    #[inline]
    pub fn ready_at(&self) -> u64 {
        self.strand().ready_at.get()
    }

    /// Returns how the strand has become ready.
    pub fn past(&self) -> Past {
        match self.strand().after().get() {
            After::Declined => Past::New,
            After::Yielded => Past::Yielded,
            _ => Past::Woken,
        }
    }

    /// Says whether the strand was announced as a hub when it was spawned: it lives long, makes many others and
    /// talks to them. Two hubs are better far from each other.
    pub fn is_hub(&self) -> bool {
        self.strand().is_hub()
    }

    /// Returns what is known of the work that the strand has to do. It may grow while the strand is
    /// ready.
    pub fn weight(&self) -> Weight {
        (self.strand().kind().weigh)(self.strand())
    }

    /// Returns the number that a scheduler of this cluster has left with the strand; 0 at first.
    #[inline]
    pub fn note(&self) -> u32 {
        self.strand().note.load(Relaxed)
    }

    /// Leaves a number with the strand, for the scheduler's own use. It stays while the strand runs or
    /// waits, so it can say where the strand ran last, or where in a queue it is.
    #[inline]
    pub fn set_note(&self, note: u32) {
        self.strand().note.store(note, Relaxed);
    }

    /// Sets the time when the strand became ready.
    #[inline]
    pub(crate) fn stamp(&self, now: u64) {
        self.strand().ready_at.set(now);
    }

    /// Returns the address of the cluster that the strand belongs to.
    pub(crate) fn cluster_address(&self) -> usize {
        self.strand().cluster_address().addr()
    }

    /// Returns the address of the strand.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    pub(crate) fn strand(&self) -> &Strand {
        // SAFETY: a strand is not freed before it has finished, and it does not finish while it is
        // ready.
        unsafe { self.0.as_ref() }
    }

    /// Stops the strand, which gave up its processor to park or to wait. Gives it back if it has been
    /// woken meanwhile. The time is for readers of memory.
    #[inline]
    pub(crate) fn stop(self, after: After, now: u64) -> Option<Ready> {
        self.stamp(now);
        probe::park::<{ Strand::WAIT }>(self.0.as_ptr().cast());
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

    /// Gives up a strand that another party owns, or nobody. The memory may be gone.
    pub(crate) fn let_go(self) {
        std::mem::forget(self);
    }

    /// Ends the life of a strand that has finished.
    pub(crate) fn retire(self) {
        self.strand().state.finish();
        // This is the reference for being alive.
        drop(StrandArc(self.into_raw()));
    }

    #[inline]
    pub(super) fn into_raw(self) -> NonNull<Strand> {
        let strand = self.0;
        std::mem::forget(self);
        strand
    }
}

impl Strand {
    /// Returns the number of references: one for being alive, one for each [`StrandArc`].
    #[inline]
    pub(crate) fn references(&self) -> u32 {
        self.refs.load(Relaxed)
    }

    /// Returns the strand if `woken` makes it the caller's. `woken` comes from the strand's state, or
    /// from a transition of the strand's kind.
    #[inline(always)]
    pub(crate) fn woken(&self, woken: Woken) -> Option<Ready> {
        match woken {
            Woken::LeaveIt => None,
            // Ending a stop has one winner, and a strand that has stopped has no other owner.
            Woken::Enqueue => {
                probe::ready(std::ptr::from_ref(self).cast());
                Some(Ready(NonNull::from(self)))
            }
        }
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

/// A strand whose weight has grown. It may be in a scheduler's queue, or may have left it.
pub struct Grown<'a>(&'a Strand);

impl<'a> Grown<'a> {
    pub(crate) fn new(strand: &'a Strand) -> Grown<'a> {
        Grown(strand)
    }

    /// Returns the address of the cluster that the strand belongs to.
    pub(crate) fn cluster_address(&self) -> usize {
        self.0.cluster_address().addr()
    }

    /// Returns whether `ready` is this strand.
    pub fn is(&self, ready: &Ready) -> bool {
        std::ptr::eq(self.0, ready.strand())
    }

    /// Returns the weight of the strand at this moment.
    pub fn weight(&self) -> Weight {
        (self.0.kind().weigh)(self.0)
    }

    /// Returns the number that the scheduler has left with the strand; see [`Ready::set_note`].
    pub fn note(&self) -> u32 {
        self.0.note.load(Relaxed)
    }
}

impl std::fmt::Debug for Grown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grown").field("weight", &self.weight()).field("note", &self.note()).finish()
    }
}

/// A counted reference to a strand. The strand may be unparked by it, and its memory stays.
pub(crate) struct StrandArc(NonNull<Strand>);

// SAFETY: the fields of the strand that a holder can reach are atomic or never change.
unsafe impl Send for StrandArc {}
// SAFETY: as above.
unsafe impl Sync for StrandArc {}

impl StrandArc {
    /// Makes a new reference to a strand that is known to be alive.
    pub(crate) fn new(strand: &Strand) -> Self {
        // Relaxed: the caller has access to the strand already.
        if strand.refs.fetch_add(1, Relaxed) > u32::MAX / 2 {
            crate::base::fatal("more than two billion handles to one strand");
        }
        StrandArc(NonNull::from(strand))
    }

    /// Makes a new reference, unless there is none any more. The caller knows that the strand's memory stays
    /// meanwhile.
    pub(crate) fn another(strand: &Strand) -> Option<Self> {
        let mut seen = strand.refs.load(Relaxed);
        loop {
            if seen == 0 {
                return None;
            }
            // Relaxed as in `new`.
            match strand.refs.compare_exchange_weak(seen, seen + 1, Relaxed, Relaxed) {
                Ok(_) => return Some(StrandArc(NonNull::from(strand))),
                Err(now) => seen = now,
            }
        }
    }

    /// Makes the first reference anew. The caller knows that there is none, and that nobody else makes one.
    pub(crate) fn first(strand: &Strand) -> Self {
        strand.refs.store(1, Relaxed);
        StrandArc(NonNull::from(strand))
    }

    #[inline]
    pub(crate) fn strand(&self) -> &Strand {
        // SAFETY: the reference counted for `self` keeps it.
        unsafe { self.0.as_ref() }
    }

    /// Returns the reference as an address, for [`from_raw`](StrandArc::from_raw).
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
        let strand = self.strand();
        // Release: what this holder did with the strand happens before it is freed; pairs with the
        // fence below. After this the strand is there only if that was the last reference.
        if strand.refs.fetch_sub(1, Release) == 1 {
            fence(Acquire);
            // SAFETY: that was the last reference, and nobody uses it again.
            unsafe { (strand.kind().free)(self.0) };
        }
    }
}
