//! The header of a strand.
#![allow(unsafe_code)]

use super::kind::{After, HUB, Kind, bound};
use super::priority::Priority;
use super::ready::Ready;
use super::state::State;
use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::base::describe::Entry;
use crate::base::peek;
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// Returns the larger thing that `strand` is the head of.
///
/// A reference to a strand may be used for the strand alone: the memory behind it is beyond what the
/// reference was made for. So the pointer to the whole is not derived from `strand`; only its address
/// is. [`Ready::of_new`] got the pointer that the memory was allocated with, and exposed its
/// provenance. This costs no instruction, and a reference may have come here in any way.
#[inline(always)]
pub(crate) fn container<C>(strand: NonNull<Strand>) -> NonNull<C> {
    NonNull::with_exposed_provenance(strand.addr())
}

/// The number of cache lines of a stack that are fetched before its fibre runs: the record at its top
/// and the line below. Measured with 500 fibres that unpark each other: more lines make no difference.
#[cfg(not(sinew_loom))]
const PREFETCHED_LINES: usize = 2;

/// The header of everything that a scheduler runs: one cache line. What it is the head of is aligned
/// to a line. The strand itself is not, because padding would then follow the fields that lie directly
/// behind it.
#[repr(C)]
pub(crate) struct Strand {
    /// The next strand of the queue that this one is in. Owner: the `Ready`. While the strand is stopped, what it
    /// waits for.
    pub(super) next: Cell<Option<NonNull<Strand>>>,
    /// When it became ready, in cycles. Owner: the `Ready`. While the strand is stopped, since when.
    pub(super) ready_at: Cell<u64>,
    /// The number of references: one for being alive, one for each `StrandArc`.
    pub(super) refs: AtomicU32,
    pub(super) state: State,
    kind: &'static Kind,
    /// The cluster that it belongs to; the layer above knows its type. Written by the strand itself
    /// while it runs. Read by the thread that wakes it, after the acquire of the state word.
    pub(super) cluster: AtomicPtr<()>,
    /// The post of the processor that it is bound to, while `bound` has a reason. Before that, the post
    /// that it is to begin at, or null. The layer above knows its type. Written and read as `cluster`
    /// is.
    post: AtomicPtr<()>,
    /// The reasons of [`bound`], and the mark of a hub, which stays. Written and read as `cluster` is.
    bound: AtomicU8,
    pub(super) priority: Priority,
    after: Cell<After>,
    /// A flag for the kind of strand, which says who writes it.
    flag: AtomicBool,
    /// A word for the scheduler of the cluster. Written by the owner of the `Ready`, read by any thread
    /// that may look at the strand.
    pub(super) note: AtomicU32,
    /// A word for the kind of strand, which says who writes it, on the line that a
    /// dispatch reads anyway.
    pub(super) own: AtomicU64,
}

#[cfg(not(sinew_loom))]
const _: () = assert!(size_of::<Strand>() == 64, "a strand is one cache line");

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("strand.wait", offset_of!(Strand, next)),
    Entry::number("strand.stamp", offset_of!(Strand, ready_at)),
    Entry::number("strand.refs", offset_of!(Strand, refs)),
    Entry::number("strand.state", offset_of!(Strand, state)),
    Entry::number("strand.kind", offset_of!(Strand, kind)),
    Entry::number("strand.cluster", offset_of!(Strand, cluster)),
    Entry::number("strand.post", offset_of!(Strand, post)),
    Entry::number("strand.bound", offset_of!(Strand, bound)),
    Entry::number("strand.priority", offset_of!(Strand, priority)),
    Entry::number("strand.after", offset_of!(Strand, after)),
    Entry::number("strand.own", offset_of!(Strand, own)),
    Entry::number("bound.started", bound::STARTED as usize),
    Entry::number("bound.pinned", bound::PINNED as usize),
];

impl Strand {
    /// Makes memory that a strand was in, or will be in, look like none to readers of memory.
    ///
    /// # Safety
    /// The caller may write to the memory.
    #[inline(always)]
    pub(super) unsafe fn erase(memory: NonNull<Strand>) {
        // SAFETY: by the contract.
        unsafe { (&raw mut (*memory.as_ptr()).kind).cast::<usize>().write(0) };
    }

    /// Notes what the strand waits for, for readers of memory: see `Why` of the layer `wait`. The word is that of
    /// a queue's link, which a strand that runs or waits does not need. By the strand, before it stops.
    #[inline(always)]
    pub(crate) fn note_wait(&self, why: u64) {
        self.next.set(NonNull::new(std::ptr::without_provenance_mut(why as usize)));
    }

    /// Returns the kind of the strand at this address, if there is one. The address may be any number. By any thread,
    /// and by a signal handler: the strand may end meanwhile.
    pub(crate) fn peek_kind(address: usize) -> Option<&'static Kind> {
        let kind = peek::word(address.wrapping_add(offset_of!(Strand, kind)))?;
        // SAFETY: the magic says that there is one. All kinds are statics.
        Kind::is_at(kind).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Kind>(kind) })
    }

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
            after: Cell::new(After::Declined),
            flag: AtomicBool::new(false),
            note: AtomicU32::new(0),
            own: AtomicU64::new(0),
        }
    }

    /// Makes this a strand that has no reference for being alive: it lives as long as there are handles, and
    /// its kind knows whether it is in use.
    pub(crate) fn without_life(mut self) -> Self {
        self.refs = AtomicU32::new(1);
        self
    }

    /// Says whether this is a hub: a strand that lives long, makes many others and talks to them.
    pub(crate) fn announced_as_hub(mut self, is_hub: bool) -> Self {
        self.bound = AtomicU8::new(if is_hub { HUB } else { 0 });
        self
    }

    /// Says whether the strand was announced as a hub.
    pub(super) fn is_hub(&self) -> bool {
        self.bound.load(Ordering::Relaxed) & HUB != 0
    }

    /// The offset of the word that says what a strand waits for that has stopped.
    pub(super) const WAIT: usize = std::mem::offset_of!(Strand, next);

    /// Returns the word that says what a strand waits for that is about to stop. By its processor.
    #[inline(always)]
    pub(crate) fn wait(&self) -> u64 {
        self.next.get().map_or(0, |word| word.addr().get() as u64)
    }

    #[inline]
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Asks the CPU for the top of a fibre's stack, which running the strand will need, and for the
    /// header of the strand behind it, which the next prefetch will need.
    #[cfg(not(sinew_loom))]
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        use crate::base::cpu::prefetch;
        prefetch(self.next.get().map_or(std::ptr::null(), |next| next.as_ptr().cast_const().cast()));
        let own = std::ptr::without_provenance::<u8>(self.own.load(Ordering::Relaxed) as usize);
        for line in 0..PREFETCHED_LINES {
            prefetch(own.wrapping_sub(64 * line));
        }
    }

    /// A model has no caches.
    #[cfg(sinew_loom)]
    pub(super) fn prefetch(&self) {}

    /// Returns the word that belongs to the strand's kind.
    #[inline(always)]
    pub(crate) fn own(&self) -> &AtomicU64 {
        &self.own
    }

    /// Returns the flag that belongs to the strand's kind.
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
        if self.is_bound(bound::ANY) { self.post.load(Ordering::Relaxed) } else { std::ptr::null() }
    }

    #[inline]
    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns the cell that says why the strand gave up its processor last. Written by the strand,
    /// then read by its processor.
    #[inline(always)]
    pub(crate) fn after(&self) -> &Cell<After> {
        &self.after
    }

    /// Says whether one of these reasons binds the strand.
    #[inline]
    pub(crate) fn is_bound(&self, reasons: u8) -> bool {
        self.bound.load(Ordering::Relaxed) & reasons & bound::ANY != 0
    }

    /// Notes that the strand is to begin at the post at this address. By the processor that declines
    /// to begin it.
    pub(crate) fn send_to(&self, post: *const ()) {
        debug_assert!(!self.is_bound(bound::ANY));
        self.post.store(post.cast_mut(), Ordering::Relaxed);
    }

    /// Returns the address of the post that a strand is to begin at, which is not bound; null if that
    /// is any post.
    #[inline]
    pub(crate) fn sent_to(&self) -> *const () {
        self.post.load(Ordering::Relaxed)
    }

    /// Binds the strand to the post at this address for one more reason. Returns the reasons
    /// that there were before. By the processor that runs it, or by the strand.
    pub(crate) fn bind_to(&self, post: *const (), reason: u8) -> u8 {
        let before = self.bound.load(Ordering::Relaxed);
        self.post.store(post.cast_mut(), Ordering::Relaxed);
        self.bound.store(before | reason, Ordering::Relaxed);
        before & bound::ANY
    }

    /// Takes reasons away from a strand that is bound. Returns whether it is free now.
    pub(crate) fn take_bound(&self, reasons: u8) -> bool {
        let left = self.bound.load(Ordering::Relaxed) & !reasons;
        self.bound.store(left, Ordering::Relaxed);
        left & bound::ANY == 0
    }

    /// Unparks the strand. Returns it if it was parked and is now the caller's.
    #[inline]
    pub(crate) fn unpark(&self) -> Option<Ready> {
        self.woken(self.state.unpark())
    }

    /// Signals the strand, as [`State::signal`] says. Returns it if it had stopped and is now the
    /// caller's.
    #[inline]
    pub(crate) fn signal(&self) -> Option<Ready> {
        self.woken(self.state.signal())
    }
}

#[cfg(all(test, sinew_loom))]
impl Strand {
    /// Makes a strand that belongs to no cluster and is never run.
    pub(crate) fn for_model(kind: &'static Kind) -> Strand {
        Strand::of(kind, std::ptr::null(), Priority::Normal)
    }
}
