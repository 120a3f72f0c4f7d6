//! The holders of a strand: the one owner of a ready strand, and counted references.
#![allow(unsafe_code)]

use super::header::Strand;
use super::kind::After;
use super::priority::Priority;
use super::state::Commit;
use crate::base::atomic::Relaxed;
use std::ptr::NonNull;

/// A strand that is ready to run: a scheduler takes it, keeps it in any order
/// that it likes, and gives it back when a processor asks. It must not be
/// dropped: the thread of control that it stands for would be lost, so that
/// ends the process.
pub struct Ready(pub(super) NonNull<Strand>);

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

    /// The owner of a strand that had stopped.
    ///
    /// # Safety
    /// The caller ended the stop, and so owns the strand.
    #[inline(always)]
    pub(super) unsafe fn of_stopped(strand: &Strand) -> Ready {
        Ready(NonNull::from(strand))
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
        self.strand().cluster_address().addr()
    }

    #[inline]
    pub(crate) fn strand(&self) -> &Strand {
        // SAFETY: a strand is not freed before it has finished, and it cannot
        // finish while it is ready.
        unsafe { self.0.as_ref() }
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
    pub(super) fn into_raw(self) -> NonNull<Strand> {
        let strand = self.0;
        std::mem::forget(self);
        strand
    }
}

#[cfg(test)]
impl Ready {
    /// Makes a strand of no cluster that is never run, for simulations of schedulers.
    pub(crate) fn simulated() -> Ready {
        static KIND: super::Kind = super::Kind { run: |_| unreachable!("a simulated strand is not run"), free };
        /// # Safety
        /// The strand was made below, and no reference to it is left.
        unsafe fn free(strand: NonNull<Strand>) {
            // SAFETY: by the contract.
            drop(unsafe { Box::from_raw(strand.as_ptr()) });
        }
        let strand = NonNull::from(Box::leak(Box::new(Strand::for_model(&KIND))));
        // SAFETY: the strand is new, and `KIND` frees it.
        unsafe { Ready::of_new(strand) }.0
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
