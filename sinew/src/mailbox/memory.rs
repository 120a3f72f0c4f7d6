//! The memory of a mailbox, and who frees it.
//!
//! One allocation: the strand, what its owner needs, and the state that a layer above adds. Handles count
//! references. An active mailbox does not: its owner would have to count one for each time that it becomes
//! active. Instead the last handle to go marks the mailbox, and the mailbox is freed by whoever comes last:
//! that handle, or the owner when it finds no more letters (see [`Word`]).
#![allow(unsafe_code)]

use super::carrier::Carrier;
use super::carry::{self, address_of};
use super::letter::{Letter, Load, Pile, Unread};
use super::meter::Meter;
use super::word::{Rested, Word};
use crate::base::atomic::spin_loop;
use crate::base::describe::{Entry, Symbol};
use crate::processor::cluster::ClusterShared;
use crate::processor::spawn::Origin;
use crate::processor::stall::{Portrait, StrandKind};
use crate::processor::{Processor, put_record, with_current};
use crate::strand::blocks::{self, Blocks};
use crate::strand::{After, Class, Face, Kind, Priority, Ready, Strand, StrandArc, Weight, Woken, container};
use crate::wait::{Party, Stackful};
use std::alloc::Layout;
use std::any::Any;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The bits of [`Mailbox::load`] that count letters; the others count nanoseconds.
const LETTER_BITS: u32 = 24;

/// The unit of [`Mailbox::undivided`], in nanoseconds: a shift.
pub(super) const UNDIVIDED_SHIFT: u32 = 4;

/// What is common to all mailboxes. The strand's own word is the mailbox's [`Word`].
///
/// The strand's cluster is counted: a handle may outlive the runtime.
#[repr(C)]
pub(crate) struct Mailbox {
    strand: Strand,
    /// Letters that have been taken and not run. Owner: the owner of the mailbox.
    pile: Pile,
    /// What the letters weigh, if the cluster's scheduler wants to know. Written by posters and owners, read
    /// by any thread that may look at the mailbox.
    load: AtomicU64,
    /// Who runs letters at this moment.
    carrier: Carrier,
    /// For letters that are of no other sort.
    meter: Meter,
    /// The time of `load` without penalties, in units of 16 ns. Written and read as `load` is.
    undivided: AtomicU32,
}

/// The entries of the description. The word is that of [`Word`], in `strand.own`.
pub(crate) const ENTRIES: &[Entry] = &[Entry::number("mail.active", Word::IS_ACTIVE as usize)];

/// Marks of a mailbox: what its owner has to do before the next letter. Colours have none.
pub(crate) mod mark {
    /// The mailbox is new.
    pub(crate) const FRESH: u8 = 1;
    /// There is an order to kill it.
    pub(crate) const KILLED: u8 = 2;
    /// There is an order, and no letter is left.
    pub(crate) const ORDERED: u8 = 4;
    /// A letter has failed.
    pub(crate) const FAILED: u8 = 8;
}

/// What a layer above does for mailboxes that end. The functions run on the carrier, and may block.
pub(crate) struct Nature {
    /// Does what the [marks](mark) ask for, and takes them away.
    pub(crate) attend: fn(&Owned),
    /// Notes that a letter has panicked.
    pub(crate) note_panic: fn(&Mailbox, Box<dyn Any + Send>),
    /// Returns what else the layer above keeps for the mailbox, whatever its type is. Makes it if there is none
    /// and the flag says so.
    pub(crate) annex: fn(&Mailbox, bool) -> Option<&(dyn Any + Send + Sync)>,
    /// Returns the name of the state's type.
    pub(crate) type_name: fn() -> &'static str,
    /// Returns the address and the length of the name of the mailbox at this address; zeros if it has none. By any
    /// thread, and by a signal handler: the mailbox may be gone meanwhile.
    pub(crate) peek_name: fn(usize) -> (usize, usize),
}

/// The state that a layer above adds to a mailbox.
pub(crate) trait State: Send + Sync + 'static {
    /// What the layer does for the mailbox, if that can end.
    const NATURE: Option<&'static Nature> = None;
    /// Whether letters may block. If not, they run without a carrier.
    const BLOCKS: bool = true;
}

/// Aligned as strands are to be.
#[repr(C, align(64))]
struct Allocation<S> {
    mailbox: Mailbox,
    state: S,
}

impl<S: State> Allocation<S> {
    /// For letters that may block.
    const CARRIED: &'static Kind = &Self::kind(Mailbox::run);
    const KIND: &'static Kind = if S::BLOCKS { Self::CARRIED } else { &Self::kind(Mailbox::run_in_place) };

    const fn kind(run: fn(&Strand) -> After) -> Kind {
        let nature = match S::NATURE {
            Some(nature) => Some(nature as &(dyn Any + Send + Sync)),
            None => None,
        };
        let type_name = match S::NATURE {
            Some(nature) => Some(nature.type_name),
            None => None,
        };
        let face = Face::new(Class::Mailbox, Symbol::of(std::ptr::drop_in_place::<S> as *const ())).named(type_name);
        Kind { face, run, free: Self::abandon, weigh: Mailbox::weigh, nature }
    }

    /// Frees the mailbox if it is idle. If it is not, its owner comes here once more.
    ///
    /// # Safety
    /// The strand is that of an `Allocation<S>`, and no handle is left.
    unsafe fn abandon(strand: NonNull<Strand>) {
        let allocation = container::<Self>(strand);
        // SAFETY: by the contract.
        let mailbox = unsafe { &allocation.as_ref().mailbox };
        if mailbox.word().abandon() && !mailbox.ends_first() {
            // SAFETY: the mailbox is idle, and no handle is left.
            unsafe { allocation.drop_in_place() };
            // SAFETY: as above; the layout is the one that it was taken with.
            unsafe { put_record(allocation.cast(), Layout::new::<Self>()) };
        }
    }
}

/// Draws the mailbox at this address, if there is one. By any thread, and by a signal handler.
pub(crate) fn portray(address: usize, portrait: &mut Portrait) {
    // At the end of a turn the mailbox may be gone while its carrier still runs.
    let kind = Strand::peek_kind(address).filter(|kind| kind.face.class() == Class::Mailbox);
    portrait.type_name = kind.and_then(|kind| kind.face.type_name());
    let nature = kind.and_then(|kind| kind.nature).and_then(|nature| nature.downcast_ref::<Nature>());
    portrait.kind = Some(if nature.is_some() { StrandKind::Actor } else { StrandKind::Event });
    if let Some(nature) = nature {
        let (text, length) = (nature.peek_name)(address);
        portrait.copy_name(text, length);
    }
}

/// Returns where the state of a mailbox is, from the mailbox on.
pub(crate) const fn offset_of_state<S>() -> usize {
    offset_of!(Allocation<S>, state)
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

impl<S: State> Handle<S> {
    /// Makes an idle mailbox.
    pub(crate) fn new(cluster: &ClusterShared, priority: Priority, state: S) -> Handle<S> {
        let strand = |cluster| Strand::of(Allocation::<S>::KIND, cluster, priority);
        let (ready, handle) =
            with_current(|processor| Handle::make(processor.map(Processor::blocks), cluster, strand, state));
        // The mailbox is idle: the first poster owns it.
        ready.let_go();
        handle
    }

    /// Makes a mailbox that is active and has the mark `FRESH`. Returns its owner, which the caller starts: it has
    /// counted the strand. If it `is_carried`, it runs on a carrier, also if its letters do not block.
    #[inline]
    pub(crate) fn fresh(
        origin: &Origin<'_>,
        priority: Priority,
        is_hub: bool,
        is_carried: bool,
        state: S,
    ) -> (Ready, Handle<S>) {
        let kind = if is_carried { Allocation::<S>::CARRIED } else { Allocation::<S>::KIND };
        let strand = |cluster| Strand::of(kind, cluster, priority).announced_as_hub(is_hub);
        let (ready, handle) = Handle::make(origin.blocks(), origin.cluster(), strand, state);
        let mailbox = handle.mailbox();
        mailbox.word().claim();
        mailbox.meter.marks.store(mark::FRESH, Relaxed);
        (ready, handle)
    }

    #[inline]
    fn make(
        own: Option<&Blocks>,
        cluster: &ClusterShared,
        strand: impl FnOnce(*const ()) -> Strand,
        state: S,
    ) -> (Ready, Handle<S>) {
        let memory = blocks::take_record(own, Layout::new::<Allocation<S>>()).cast::<Allocation<S>>();
        let cluster = Arc::into_raw(cluster.to_arc());
        // SAFETY: the memory is large enough, and ours.
        let (mailbox, place) = unsafe { (&raw mut (*memory.as_ptr()).mailbox, &raw mut (*memory.as_ptr()).state) };
        let new = Mailbox {
            strand: strand(cluster.cast()).without_life(),
            pile: Pile::new(),
            load: AtomicU64::new(0),
            carrier: Carrier::none(),
            meter: Meter::new(0),
            undivided: AtomicU32::new(0),
        };
        // SAFETY: as above.
        unsafe { mailbox.write(new) };
        // SAFETY: as above.
        unsafe { place.write(state) };
        // SAFETY: the strand is new, and its kind frees it.
        let (ready, strand) = unsafe { Ready::of_new(memory.cast()) };
        (ready, Handle { strand, state: PhantomData })
    }

    /// Makes a handle to the mailbox that the caller owns.
    ///
    /// # Safety
    /// The mailbox was made with a state of this type.
    pub(crate) unsafe fn of(mailbox: &Mailbox) -> Handle<S> {
        Handle { strand: mailbox.new_reference(), state: PhantomData }
    }

    /// Makes a handle of a counted reference.
    ///
    /// # Safety
    /// It is that of a mailbox that was made with a state of this type.
    pub(crate) unsafe fn from_strand(strand: StrandArc) -> Handle<S> {
        Handle { strand, state: PhantomData }
    }

    /// Returns the counted reference.
    pub(crate) fn strand(&self) -> &StrandArc {
        &self.strand
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

impl Drop for Mailbox {
    fn drop(&mut self) {
        // SAFETY: `make` counted the cluster, and a mailbox does not move to another one.
        drop(unsafe { Arc::from_raw(self.strand.cluster_address().cast::<ClusterShared>()) });
    }
}

impl Mailbox {
    /// Returns the mailbox that a strand is the head of.
    ///
    /// # Safety
    /// It is a mailbox's.
    pub(crate) unsafe fn of(strand: &Strand) -> &Mailbox {
        // SAFETY: by the contract.
        unsafe { container(NonNull::from(strand)).as_ref() }
    }

    /// Returns the state.
    ///
    /// # Safety
    /// The mailbox was made with a state of this type.
    #[inline(always)]
    pub(crate) unsafe fn state<S>(&self) -> &S {
        // SAFETY: by the contract.
        &unsafe { container::<Allocation<S>>(NonNull::from(&self.strand)).as_ref() }.state
    }

    #[inline]
    pub(super) fn strand(&self) -> &Strand {
        &self.strand
    }

    /// Returns what the layer above does for the mailbox, if that can end.
    #[inline]
    pub(crate) fn nature(&self) -> Option<&'static Nature> {
        self.strand.kind().nature.map(|nature| nature.downcast_ref().expect("the nature of a mailbox"))
    }

    /// Makes a counted reference, by the owner of the mailbox. If there is none any more, waits until the thread that
    /// drops the last one has marked the mailbox, and takes that back.
    pub(crate) fn new_reference(&self) -> StrandArc {
        if let Some(reference) = StrandArc::another(&self.strand) {
            return reference;
        }
        while !self.word().revive() {
            spin_loop();
        }
        StrandArc::first(&self.strand)
    }

    /// Returns the marks.
    #[inline]
    pub(crate) fn marks(&self) -> u8 {
        self.meter.marks.load(Relaxed)
    }

    /// Adds a mark. By any thread; the owner looks at the marks before each letter.
    pub(crate) fn add_mark(&self, mark: u8) {
        self.meter.marks.fetch_or(mark, Relaxed);
    }

    /// Takes marks away. By the owner.
    pub(crate) fn take_marks(&self, marks: u8) {
        self.meter.marks.fetch_and(!marks, Relaxed);
    }

    /// Returns whether an owner frees the mailbox later, because it ends first. By the thread that is to free
    /// the mailbox: it is idle, and no handle is left.
    fn ends_first(&self) -> bool {
        if self.strand.kind().nature.is_none() || self.word().has_ended() {
            return false;
        }
        with_current(|processor| {
            let origin = Origin::of(self.cluster(), processor);
            if !origin.count() {
                // The runtime has ended: the state is dropped as it is.
                return false;
            }
            self.word().claim();
            self.add_mark(mark::ORDERED);
            self.strand.woken(Woken::Enqueue).into_iter().for_each(|ready| origin.start(ready));
            true
        })
    }

    /// Cancels the letter that runs, if its carrier has left.
    pub(super) fn cancel_carrier(&self) {
        let Some(held) = self.carrier.hold() else { return };
        let strand = std::ptr::with_exposed_provenance::<Strand>(held.address());
        // SAFETY: the carrier has a reference that is counted until `come_back`, which waits for us. A carrier has
        // a stack.
        let owed = unsafe { Stackful::of(&*strand) }.cancel().request();
        drop(held);
        // The carrier may go on from here.
        owed.into_iter().for_each(Party::signal_owed);
    }

    #[inline]
    pub(crate) fn cluster(&self) -> &ClusterShared {
        self.strand.cluster()
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
        let after = with_current(|processor| processor.expect("strands run on processors").carry(strand));
        if after == After::Left && strand.kind().nature.is_some() {
            // SAFETY: this is the `run` of a kind that mailboxes have alone. The carrier that owns the mailbox
            // does not go on before this has returned.
            unsafe { Mailbox::of(strand) }.note_left();
        }
        after
    }

    /// Runs letters that do not block, on the processor's own stack. If one blocks all the same, it panics as a task
    /// does.
    fn run_in_place(strand: &Strand) -> After {
        with_current(|processor| {
            let processor = processor.expect("strands run on processors");
            let _running = processor.begin_task(strand);
            processor.carriers().hand_to_itself(address_of(strand), || carry::run_in_place(Owned::of(strand)))
        })
    }

    /// Notes that the carrier has left its processor with the mailbox.
    fn note_left(&self) {
        let carrier = std::ptr::with_exposed_provenance::<Strand>(self.carrier.address());
        // SAFETY: the processor has the carrier in its hands.
        let _ = StrandArc::new(unsafe { &*carrier }).into_raw();
        self.carrier.leave();
        if self.word().is_killed() {
            self.cancel_carrier();
        }
    }

    fn weigh(strand: &Strand) -> Weight {
        // SAFETY: this is the `weigh` of a kind that mailboxes have alone.
        let mailbox = unsafe { container::<Mailbox>(NonNull::from(strand)).as_ref() };
        let load = mailbox.load.load(Relaxed);
        let letters = (load & ((1 << LETTER_BITS) - 1)) as u32;
        let undivided = u64::from(mailbox.undivided.load(Relaxed)) << UNDIVIDED_SHIFT;
        Weight::new(load >> LETTER_BITS, letters).undivided(undivided)
    }

    /// Adds the weight of a letter. Returns whether the sum has passed a power of two. By a poster, before it
    /// posts.
    pub(super) fn add_weight(&self, load: Load) -> bool {
        self.undivided.fetch_add(load.undivided(), Relaxed);
        let before = self.load.fetch_add(load.ns() << LETTER_BITS | 1, Relaxed) >> LETTER_BITS;
        let after = before + load.ns();
        before.leading_zeros() != after.leading_zeros()
    }

    /// Takes away the weight of letters that have run, or that were not posted.
    pub(super) fn take_weight(&self, ns: u64, undivided: u32, letters: u64) {
        self.load.fetch_sub(ns << LETTER_BITS | letters, Relaxed);
        self.undivided.fetch_sub(undivided, Relaxed);
    }

    /// Says whether no letter waits behind the one that runs. By the strand that runs it.
    pub(crate) fn has_no_more_letters(&self) -> bool {
        debug_assert!(self.is_carried_by_caller());
        self.pile.is_empty() && !self.word().has_letters()
    }

    /// Says whether the calling strand runs a letter of this mailbox.
    pub(crate) fn is_carried_by_caller(&self) -> bool {
        let carrier = self.carrier.address();
        carrier != 0 && carrier == caller()
    }

    /// Notes that the calling strand visits the mailbox; with `false`, that the visit is over.
    #[inline]
    pub(super) fn note_visitor(&self, begins: bool) {
        self.carrier.set(if begins { caller() } else { 0 });
    }
}

/// Returns the address of the strand that stands for the caller when it runs letters: the fibre, or the mailbox that
/// runs on the processor's own stack. 0 if there is neither.
#[inline]
fn caller() -> usize {
    match crate::stack::current_stack() {
        Some(stack) => address_of(stack.strand()),
        None => with_current(|processor| processor.map_or(0, |processor| processor.carriers().handed())),
    }
}

/// The right to run the letters of a mailbox. There is one for each mailbox that has been handed to a
/// carrier.
pub(crate) struct Owned {
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

    /// Takes the mailbox that a processor runs.
    fn of(strand: &Strand) -> Owned {
        // The kind of the strand is that of a mailbox: this is for its `run`.
        Owned { mailbox: container(NonNull::from(strand)) }
    }

    #[inline]
    pub(crate) fn mailbox(&self) -> &Mailbox {
        // SAFETY: an active mailbox is not freed, and it is active while it has an owner.
        unsafe { self.mailbox.as_ref() }
    }

    /// Notes which strand runs letters, or 0.
    #[inline]
    pub(super) fn note_carrier(&self, address: usize) {
        self.mailbox().carrier.set(address);
    }

    /// Notes that the carrier that had left is done with its letter. By that carrier.
    #[cold]
    pub(super) fn come_back(&self) {
        let carrier = &self.mailbox().carrier;
        let address = carrier.address();
        if carrier.come_back() {
            let strand = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("a strand");
            // SAFETY: `note_left` counted the reference, and it is given back once.
            drop(unsafe { StrandArc::from_raw(strand) });
        }
    }

    /// Closes the mailbox, and discards all letters.
    pub(crate) fn discard_letters(&self) {
        self.mailbox().word().close();
        while let Some(letter) = self.next_letter() {
            // Dropping what a program has put into a letter may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| letter.discard(Unread::Ended))).map_err(std::mem::forget);
        }
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

    /// Returns whether letters or marks are left.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        let mailbox = self.mailbox();
        !mailbox.pile.is_empty() || mailbox.word().has_letters() || mailbox.marks() != 0
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
        let mailbox = self.mailbox();
        let ends = mailbox.strand.kind().nature.is_some();
        match mailbox.word().rest(ends) {
            Rested::Idle => Ok(()),
            Rested::Forsaken => {
                let (strand, kind) = (self.mailbox.cast::<Strand>(), self.mailbox().strand.kind());
                // SAFETY: no handle is left.
                unsafe { (kind.free)(strand) };
                Ok(())
            }
            Rested::Letters => Err(self),
            Rested::Ordered => {
                self.mailbox().add_mark(mark::ORDERED);
                Err(self)
            }
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_with_three_words_of_state_takes_two_lines() {
        assert_eq!(size_of::<Allocation<[u64; 3]>>(), 128);
    }
}
