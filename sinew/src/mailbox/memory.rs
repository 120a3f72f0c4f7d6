//! The memory of a mailbox, and who frees it.
//!
//! One allocation: the strand, what its owner needs, and the state that a layer above adds. Handles count
//! references. An active mailbox does not: its owner would have to count one for each time that it becomes
//! active. Instead the last handle to go marks the mailbox, and the mailbox is freed by whoever comes last:
//! that handle, or the owner when it finds no more letters (see [`Word`]).
#![allow(unsafe_code)]

use super::carry;
use super::letter::{Letter, Load, Pile};
use super::meter::Meter;
use super::word::{Rested, Word};
use crate::processor::cluster::ClusterShared;
use crate::processor::{Processor, put_memory, with_current};
use crate::strand::blocks;
use crate::strand::{After, Kind, Priority, Ready, Strand, StrandArc, Weight, Woken, container};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The bits of [`Mailbox::load`] that count letters; the others count nanoseconds.
const LETTER_BITS: u32 = 24;

/// What is common to all mailboxes. The strand's own word is the mailbox's [`Word`].
#[repr(C)]
pub(crate) struct Mailbox {
    strand: Strand,
    /// Keeps the cluster whose address the strand has: a handle may outlive the runtime.
    cluster: Arc<ClusterShared>,
    /// Letters that have been taken and not run. Owner: the owner of the mailbox.
    pile: Pile,
    /// What the letters weigh, if the cluster's scheduler wants to know. Written by posters and owners, read
    /// by any thread that may look at the mailbox.
    load: AtomicU64,
    /// The address of the strand that runs letters at this moment, or 0. Written by that strand, read by
    /// strands that ask whether it is they.
    carrier: AtomicUsize,
    /// The nanoseconds of `load` without penalties. Written and read as `load` is.
    undivided_ns: AtomicU64,
    /// For letters that are of no other sort.
    meter: Meter,
}

/// Aligned as strands are to be.
#[repr(C, align(64))]
struct Allocation<S> {
    mailbox: Mailbox,
    state: S,
}

impl<S> Allocation<S> {
    const KIND: &'static Kind = &Kind { run: Mailbox::run, free: Self::abandon, weigh: Mailbox::weigh };

    /// Frees the mailbox if it is idle. If it is not, its owner comes here once more.
    ///
    /// # Safety
    /// The strand is that of an `Allocation<S>`, and no handle is left.
    unsafe fn abandon(strand: NonNull<Strand>) {
        let allocation = container::<Self>(strand);
        // SAFETY: by the contract.
        if unsafe { allocation.as_ref() }.mailbox.word().abandon() {
            // SAFETY: the mailbox is idle, and no handle is left.
            unsafe { allocation.drop_in_place() };
            // SAFETY: as above; the layout is the one that it was taken with.
            unsafe { put_memory(allocation.cast(), Layout::new::<Self>()) };
        }
    }
}

/// A handle to a mailbox with state of type `S`.
pub(crate) struct Handle<S> {
    strand: StrandArc,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Handle { strand: self.strand.clone(), state: PhantomData }
    }
}

impl<S: Send + Sync + 'static> Handle<S> {
    /// Makes an idle mailbox.
    pub(crate) fn new(cluster: &ClusterShared, priority: Priority, state: S) -> Handle<S> {
        let layout = Layout::new::<Allocation<S>>();
        let memory = with_current(|processor| blocks::take(processor.map(Processor::blocks), layout));
        let memory = memory.cast::<Allocation<S>>();
        let new = Allocation {
            mailbox: Mailbox {
                strand: Strand::new(Allocation::<S>::KIND, cluster, priority).without_life(),
                cluster: cluster.to_arc(),
                pile: Pile::new(),
                load: AtomicU64::new(0),
                carrier: AtomicUsize::new(0),
                undivided_ns: AtomicU64::new(0),
                meter: Meter::new(0),
            },
            state,
        };
        // SAFETY: the memory is large enough, and ours.
        unsafe { memory.write(new) };
        // SAFETY: the strand is new, and its kind frees it.
        let (ready, strand) = unsafe { Ready::of_new(memory.cast()) };
        // The mailbox is idle: the first poster owns it.
        ready.let_go();
        Handle { strand, state: PhantomData }
    }

    #[inline]
    pub(crate) fn mailbox(&self) -> &Mailbox {
        // SAFETY: `new` made it of a mailbox's strand.
        unsafe { container(NonNull::from(self.strand.strand())).as_ref() }
    }

    /// Returns the state that the layer above has added.
    #[inline]
    pub(crate) fn state(&self) -> &S {
        // SAFETY: `new` made it of such an allocation.
        &unsafe { container::<Allocation<S>>(NonNull::from(self.strand.strand())).as_ref() }.state
    }
}

impl Mailbox {
    #[inline]
    pub(super) fn strand(&self) -> &Strand {
        &self.strand
    }

    #[inline]
    pub(crate) fn cluster(&self) -> &ClusterShared {
        &self.cluster
    }

    #[inline]
    pub(crate) fn word(&self) -> Word<'_> {
        Word::of(self.strand.own())
    }

    /// Returns the meter for letters that are of no other sort.
    #[inline]
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(&self.strand).addr()
    }

    fn run(strand: &Strand) -> After {
        with_current(|processor| processor.expect("strands run on processors").carry(strand))
    }

    fn weigh(strand: &Strand) -> Weight {
        // SAFETY: this is the `weigh` of a kind that mailboxes have alone.
        let mailbox = unsafe { container::<Mailbox>(NonNull::from(strand)).as_ref() };
        let load = mailbox.load.load(Relaxed);
        let letters = (load & ((1 << LETTER_BITS) - 1)) as u32;
        Weight::new(load >> LETTER_BITS, letters).undivided(mailbox.undivided_ns.load(Relaxed))
    }

    /// Adds the weight of a letter. Returns whether the sum has passed a power of two. By a poster, before it
    /// posts.
    pub(super) fn add_weight(&self, load: Load) -> bool {
        self.undivided_ns.fetch_add(load.undivided_ns(), Relaxed);
        let before = self.load.fetch_add(load.ns() << LETTER_BITS | 1, Relaxed) >> LETTER_BITS;
        let after = before + load.ns();
        before.leading_zeros() != after.leading_zeros()
    }

    /// Takes away the weight of letters that have run, or that were not posted.
    pub(super) fn take_weight(&self, ns: u64, undivided_ns: u64, letters: u64) {
        self.load.fetch_sub(ns << LETTER_BITS | letters, Relaxed);
        self.undivided_ns.fetch_sub(undivided_ns, Relaxed);
    }

    /// Says whether no letter waits behind the one that runs. By the strand that runs it.
    pub(crate) fn has_no_more_letters(&self) -> bool {
        debug_assert!(self.is_carried_by_caller());
        self.pile.is_empty() && !self.word().has_letters()
    }

    /// Says whether the calling strand runs a letter of this mailbox.
    pub(crate) fn is_carried_by_caller(&self) -> bool {
        let carrier = self.carrier.load(Relaxed);
        carrier != 0 && crate::stack::current_stack().is_some_and(|stack| carry::address_of(stack.strand()) == carrier)
    }
}

/// The right to run the letters of a mailbox. There is one for each mailbox that has been handed to a
/// carrier.
pub(super) struct Owned {
    mailbox: NonNull<Mailbox>,
}

impl Owned {
    /// Takes the mailbox that was handed to the calling carrier.
    pub(super) fn handed() -> Owned {
        let address = with_current(|processor| processor.expect("carriers run on processors").carriers().handed());
        let strand = NonNull::new(std::ptr::with_exposed_provenance_mut::<Strand>(address));
        // The processor handed over a strand of the kind whose `run` is above, and forgets it.
        Owned { mailbox: container(strand.expect("a carrier is resumed with a mailbox")) }
    }

    #[inline]
    pub(super) fn mailbox(&self) -> &Mailbox {
        // SAFETY: an active mailbox is not freed, and it is active while it has an owner.
        unsafe { self.mailbox.as_ref() }
    }

    /// Notes which strand runs letters, or 0.
    #[inline]
    pub(super) fn note_carrier(&self, address: usize) {
        self.mailbox().carrier.store(address, Relaxed);
    }

    /// Notes why the mailbox gives up its processor.
    #[inline]
    pub(super) fn note_end(&self, after: After) {
        self.mailbox().strand.after().set(after);
    }

    /// Takes the oldest letter.
    #[inline]
    pub(super) fn next_letter(&self) -> Option<Letter> {
        let mailbox = self.mailbox();
        if mailbox.pile.is_empty() {
            let newest = mailbox.word().take()?;
            // SAFETY: the word of a mailbox holds letters only, and this is the owner.
            unsafe { mailbox.pile.fill(newest) };
        }
        mailbox.pile.pop()
    }

    /// Returns whether letters are left.
    #[inline]
    pub(super) fn has_letters(&self) -> bool {
        !self.mailbox().pile.is_empty() || self.mailbox().word().has_letters()
    }

    /// Makes the mailbox a ready strand again: it has letters.
    pub(super) fn into_ready(self) -> Ready {
        let ready = self.mailbox().strand.woken(Woken::Enqueue);
        ready.expect("the owner of a strand may enqueue it")
    }

    /// Gives up the mailbox, which has no letters.
    ///
    /// # Errors
    /// Letters have come: the mailbox itself.
    #[inline]
    pub(super) fn rest(self) -> Result<(), Owned> {
        match self.mailbox().word().rest() {
            Rested::Idle => Ok(()),
            Rested::Forsaken => {
                let (strand, kind) = (self.mailbox.cast::<Strand>(), self.mailbox().strand.kind());
                // SAFETY: no handle is left.
                unsafe { (kind.free)(strand) };
                Ok(())
            }
            Rested::Letters => Err(self),
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_with_a_word_of_state_takes_two_lines() {
        assert_eq!(size_of::<Allocation<Option<Box<u64>>>>(), 128);
    }
}
