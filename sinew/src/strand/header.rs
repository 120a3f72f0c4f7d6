//! The header of a strand.
#![allow(unsafe_code)]

use super::kind::{After, Kind};
use super::priority::Priority;
use super::ready::Ready;
use super::state::{State, Woken};
use crate::base::atomic::{Acquire, AtomicBool, AtomicU32, AtomicU64, Release, fence};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

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
    pub(super) next: Cell<Option<NonNull<Strand>>>,
    /// When it became ready, in ticks. Owner: the `Ready`.
    pub(super) ready_at: Cell<u64>,
    /// References counted: one for being alive, one for each `StrandArc`.
    pub(super) refs: AtomicU32,
    pub(super) state: State,
    kind: &'static Kind,
    /// The cluster that it belongs to; the layer above knows its type. Written by the strand
    /// itself while it runs. Read by the one that unparks it, after the acquire of the state
    /// word.
    pub(super) cluster: AtomicPtr<()>,
    /// The post of the processor that it is bound to, while `bound` is not 0. The layer above
    /// knows its type. Written and read as `cluster` is.
    post: AtomicPtr<()>,
    /// The reasons of [`bound`](super::bound). Written and read as `cluster` is.
    bound: AtomicU8,
    pub(super) priority: Priority,
    after: Cell<After>,
    /// A flag for the kind of strand, which says who writes it.
    flag: AtomicBool,
    /// A word for the kind of strand, which says who writes it, on the line that a
    /// dispatch reads anyway.
    pub(super) own: AtomicU64,
}

#[cfg(not(sinew_loom))]
const _: () = assert!(size_of::<Strand>() == 64, "a strand is one cache line");

impl Strand {
    /// Makes a strand of the cluster at this address. It is alive and has one more reference,
    /// for the first [`StrandArc`](super::StrandArc); see [`Ready::of_new`].
    pub(crate) fn of(kind: &'static Kind, cluster: *const (), priority: Priority) -> Self {
        Strand {
            next: Cell::new(None),
            ready_at: Cell::new(0),
            refs: AtomicU32::new(2),
            state: State::new(),
            kind,
            cluster: AtomicPtr::new(cluster.cast_mut()),
            post: AtomicPtr::new(std::ptr::null_mut()),
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
    pub(super) fn prefetch(&self) {
        use crate::base::atomic::Relaxed;
        use crate::base::prefetch::prefetch;
        prefetch(self.next.get().map_or(std::ptr::null(), |next| next.as_ptr().cast_const().cast()));
        let own = std::ptr::without_provenance::<u8>(self.own.load(Relaxed) as usize);
        for line in 0..PREFETCHED_LINES {
            prefetch(own.wrapping_sub(64 * line));
        }
    }

    /// A model has no caches.
    #[cfg(sinew_loom)]
    pub(super) fn prefetch(&self) {}

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

    /// Returns the address of the cluster that the strand belongs to.
    #[inline]
    pub(crate) fn cluster_address(&self) -> *const () {
        self.cluster.load(Ordering::Relaxed)
    }

    /// Makes the cluster at this address the one that the strand belongs to. By the strand.
    pub(crate) fn set_cluster_address(&self, cluster: *const ()) {
        self.cluster.store(cluster.cast_mut(), Ordering::Relaxed);
    }

    /// Returns the address of the post that the strand may not leave; null if it is not bound.
    #[inline]
    pub(crate) fn post_address(&self) -> *const () {
        if self.bound.load(Ordering::Relaxed) == 0 { std::ptr::null() } else { self.post.load(Ordering::Relaxed) }
    }

    #[inline]
    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Why it gave up its processor last. By the strand, then by its processor.
    #[inline(always)]
    pub(crate) fn after(&self) -> &Cell<After> {
        &self.after
    }

    /// Says whether one of these reasons binds the strand.
    pub(crate) fn is_bound(&self, reasons: u8) -> bool {
        self.bound.load(Ordering::Relaxed) & reasons != 0
    }

    /// Binds the strand to the post at this address for one more reason. Returns the reasons
    /// that there were before. By the processor that runs it, or by the strand.
    pub(crate) fn bind_to(&self, post: *const (), reason: u8) -> u8 {
        let before = self.bound.load(Ordering::Relaxed);
        self.post.store(post.cast_mut(), Ordering::Relaxed);
        self.bound.store(before | reason, Ordering::Relaxed);
        before
    }

    /// Takes reasons away. Returns the address of the post if the strand was bound and is free now,
    /// null otherwise.
    pub(crate) fn take_bound(&self, reasons: u8) -> *const () {
        let before = self.bound.load(Ordering::Relaxed);
        self.bound.store(before & !reasons, Ordering::Relaxed);
        if before != 0 && before & !reasons == 0 { self.post.load(Ordering::Relaxed) } else { std::ptr::null() }
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
            // SAFETY: ending a stop has one winner, and a strand that has stopped has no other
            // owner.
            Woken::Enqueue => Some(unsafe { Ready::of_stopped(self) }),
        }
    }

    /// Drops one reference.
    ///
    /// # Safety
    /// The caller owns the reference and does not use it again.
    pub(super) unsafe fn release(strand: NonNull<Strand>) {
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

#[cfg(test)]
impl Strand {
    /// A strand that belongs to no cluster and is never run, for models and
    /// simulations of queues.
    pub(crate) fn for_model(kind: &'static Kind) -> Strand {
        Strand::of(kind, std::ptr::null(), Priority::Normal)
    }
}
