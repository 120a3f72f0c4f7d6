//! The memory of a fibre: its record, its closure, later its result.
//!
//! One allocation, made when the fibre is spawned. The fibre has a stack from its first run to its
//! end. So a fibre that waits for its first turn costs no stack, and a handle to a fibre that has
//! ended keeps none.
#![allow(unsafe_code)]

use super::locals::Locals;
use super::scope::{Entered, ScopeShared};
use crate::base::Deadline;
use crate::base::atomic::{AtomicU64, Relaxed};
use crate::base::describe::{self, Symbol};
use crate::base::peek;
use crate::identity::{self, Identities};
use crate::processor::cluster::ClusterShared;
use crate::processor::stall::{Portrait, StrandKind};
use crate::processor::{self, Event, Processor, put_record};
use crate::stack::arena::Class;
use crate::stack::{Entry, Stack, high_water};
use crate::strand::blocks::{self, Blocks};
use crate::strand::join::{Completed, Detached, Join};
use crate::strand::{self, After, Face, Kind, Priority, Ready, Strand, StrandArc, Weight, container};
use crate::wait::{Cancel, Stackful};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

/// What the runtime knows of a fibre.
#[repr(C)]
pub(crate) struct Record {
    /// First, so that a pointer to it is one to the record.
    head: Stackful,
    /// See [`Join`].
    join: AtomicU64,
    locals: Locals,
    name: Name,
    scope: Option<Arc<ScopeShared>>,
    spawned_at: &'static Location<'static>,
    typed: &'static Typed,
}

/// The name of a fibre, if it has one. Readers of memory rely on the layout.
#[repr(C)]
struct Name {
    /// The address of the text; null if there is no name.
    text: *const u8,
    /// The length of the text. If there is no name, the address of the mailbox that the fibre carries; 0 if it is no
    /// carrier. Carriers have no name, so the word takes no space. Written by the fibre, read by any thread.
    length: AtomicUsize,
}

// SAFETY: the text belongs to the name and does not change.
unsafe impl Send for Name {}
// SAFETY: as above.
unsafe impl Sync for Name {}

impl Name {
    #[inline(always)]
    fn new(name: Option<Box<str>>) -> Name {
        // Two words, not a `Name`: one of two `Name`s is copied through memory.
        let (text, length) = name.map_or((std::ptr::null(), 0), |name| {
            let length = name.len();
            (Box::into_raw(name).cast_const().cast(), length)
        });
        Name { text, length: AtomicUsize::new(length) }
    }

    fn get(&self) -> Option<&str> {
        let text = self.raw()?;
        // SAFETY: the text belongs to the name.
        Some(unsafe { &*text })
    }

    #[inline(always)]
    fn raw(&self) -> Option<*mut str> {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.text.cast_mut(), self.length.load(Relaxed));
        (!self.text.is_null()).then_some(bytes as *mut str)
    }

    /// Returns the word for the mailbox, if there is no name.
    #[inline]
    fn carried(&self) -> Option<&AtomicUsize> {
        self.text.is_null().then_some(&self.length)
    }
}

impl Drop for Name {
    #[inline]
    fn drop(&mut self) {
        if let Some(text) = self.raw() {
            // SAFETY: `new` took it apart.
            drop(unsafe { Box::from_raw(text) });
        }
    }
}

/// The entries of the description.
pub(crate) const ENTRIES: &[describe::Entry] = &[
    describe::Entry::number("fibre.name", offset_of!(Record, name.text)),
    describe::Entry::number("fibre.name_length", offset_of!(Record, name.length)),
    describe::Entry::number("fibre.scope", offset_of!(Record, scope)),
    describe::Entry::number("fibre.spawned_at", offset_of!(Record, spawned_at)),
];

/// The kind of strand that fibres are.
pub(crate) static FIBRE: Kind = Kind {
    face: Face::new(strand::Class::Fibre, Symbol::NONE),
    run: Record::run_here,
    free: Record::free,
    weigh: Weight::unknown,
    nature: None,
};

/// What depends on the types of the closure and its result.
struct Typed {
    /// Runs the closure and stores what it returns. By the fibre, once.
    ///
    /// # Safety
    /// The record is at the start of an `Allocation` of the right type.
    execute: unsafe fn(&Record),
    /// Drops the closure or the result.
    ///
    /// # Safety
    /// As above, and nobody else uses it.
    clear: unsafe fn(&Record),
    /// # Safety
    /// As above; no reference is left.
    free: unsafe fn(NonNull<Strand>),
}

/// What a fibre is made with.
pub(crate) struct Plan<'a> {
    pub(crate) cluster: &'a ClusterShared,
    /// The memory of the processor that spawns the fibre, if one does.
    pub(crate) blocks: Option<&'a Blocks>,
    pub(crate) priority: Priority,
    pub(crate) class: Class,
    pub(crate) pinned: bool,
    pub(crate) id: NonZeroU64,
    pub(crate) name: Option<Box<str>>,
    pub(crate) scope: Option<Entered>,
    pub(crate) spawned_at: &'static Location<'static>,
}

/// Aligned as strands are to be.
#[repr(C, align(64))]
struct Allocation<F, T> {
    record: Record,
    /// Owner: nobody before the fibre begins; then the fibre, until `Join::complete`; then the fibre
    /// or the handle, as `complete` says.
    stage: UnsafeCell<Stage<F, T>>,
}

enum Stage<F, T> {
    Closure(F),
    Result(thread::Result<T>),
    Empty,
}

impl Record {
    /// Makes a fibre that is ready for its first run.
    ///
    /// # Safety
    /// The fibre ends before anything that `F` or `T` borrow does, and the
    /// result is taken out or dropped before as well.
    pub(crate) unsafe fn create<F, T>(plan: Plan<'_>, closure: F) -> (Ready, StrandArc)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let memory = blocks::take_record(plan.blocks, Layout::new::<Allocation<F, T>>()).cast::<Allocation<F, T>>();
        // Written in place: to build a record elsewhere and to copy it costs 15 ns more, because the
        // copy reads what has not reached the cache.
        // SAFETY: the memory is large enough, and ours.
        let (record, stage) = unsafe { (&raw mut (*memory.as_ptr()).record, &raw mut (*memory.as_ptr()).stage) };
        // SAFETY: as above.
        unsafe { stage.write(UnsafeCell::new(Stage::Closure(closure))) };
        // Only fibres of a scope inherit one.
        let deadline = plan.scope.as_ref().map_or(Deadline::NEVER, Entered::inherited);
        let new = Record {
            head: Stackful::new(
                Strand::new(&FIBRE, plan.cluster, plan.priority),
                plan.id,
                plan.class,
                plan.pinned,
                deadline,
            ),
            join: AtomicU64::new(0),
            locals: Locals::new(),
            name: Name::new(plan.name),
            scope: plan.scope.and_then(Entered::into_shared),
            spawned_at: plan.spawned_at,
            typed: const {
                &Typed {
                    execute: Allocation::<F, T>::execute,
                    clear: Allocation::<F, T>::clear,
                    free: Allocation::<F, T>::free,
                }
            },
        };
        // SAFETY: as above.
        unsafe { record.write(new) };
        // SAFETY: the strand is new, and `FIBRE` frees it.
        unsafe { Ready::of_new(memory.cast()) }
    }

    /// Returns the record that `strand` is the head of.
    ///
    /// # Safety
    /// The strand is a fibre's.
    #[inline]
    pub(crate) unsafe fn of(strand: &Strand) -> &Record {
        // SAFETY: by the contract; `strand` is the first field.
        unsafe { container(NonNull::from(strand)).as_ref() }
    }

    pub(crate) fn head(&self) -> &Stackful {
        &self.head
    }

    pub(crate) fn strand(&self) -> &Strand {
        self.head.strand()
    }

    #[inline(always)]
    pub(crate) fn join(&self) -> Join<'_> {
        Join::of(&self.join)
    }

    pub(crate) fn id(&self) -> NonZeroU64 {
        self.head.id()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.get().or_else(|| (self.carried() != 0).then_some("event"))
    }

    /// Draws the fibre at this address, or returns the address of the mailbox that it carries. By any thread, and by
    /// a signal handler.
    pub(crate) fn portray(address: usize, portrait: &mut Portrait) -> Option<usize> {
        let word = |offset: usize| peek::word(address.wrapping_add(offset)).unwrap_or(0);
        let (text, length) = (word(offset_of!(Record, name.text)), word(offset_of!(Record, name.length)));
        if text == 0 && length != 0 {
            return Some(length);
        }
        portrait.kind = Some(StrandKind::Fibre);
        portrait.id = word(Stackful::ID) as u64;
        portrait.spawned_at = word(offset_of!(Record, spawned_at));
        portrait.copy_name(text, length);
        None
    }

    /// Notes that the fibre carries the mailbox at this address. By the fibre, a carrier.
    #[inline]
    pub(crate) fn carry(&self, mailbox: usize) {
        if let Some(carried) = self.name.carried() {
            carried.store(mailbox, Relaxed);
        }
    }

    /// Returns the address of the mailbox that the fibre carries; 0 if it is no carrier.
    #[inline]
    pub(crate) fn carried(&self) -> usize {
        self.name.carried().map_or(0, |carried| carried.load(Relaxed))
    }

    pub(crate) fn class(&self) -> Class {
        self.head.class()
    }

    pub(crate) fn locals(&self) -> &Locals {
        &self.locals
    }

    #[inline]
    pub(crate) fn cancel(&self) -> &Cancel {
        self.head.cancel()
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns the fibre's stack, which it has from the first run to the end. By the processor that
    /// runs the fibre, or by the fibre.
    #[inline(always)]
    pub(crate) fn stack(&self) -> Option<Stack> {
        let stack = std::ptr::with_exposed_provenance_mut(self.strand().own().load(Relaxed) as usize);
        // SAFETY: nobody else writes a fibre's own word.
        unsafe { Stack::from_raw(stack) }
    }

    fn set_stack(&self, stack: Option<Stack>) {
        let stack = stack.map_or(0, |stack| stack.into_raw().expose_provenance());
        self.strand().own().store(stack as u64, Relaxed);
    }

    /// Runs the fibre as [`run`](Record::run) does, for a processor's loop that does not know fibres.
    fn run_here(strand: &Strand) -> After {
        processor::with_current(|processor| {
            let processor = processor.expect("strands run on processors");
            match processor.identities() {
                None => Record::run(strand, processor),
                Some(identities) => Record::run_with_identity(strand, processor, identities),
            }
        })
    }

    /// As [`run`](Record::run), on a processor whose fibres have identities of their own.
    #[inline(always)]
    pub(crate) fn run_with_identity(strand: &Strand, processor: &Processor, identities: &Identities) -> After {
        Record::run_by(strand, processor, |stack| {
            // SAFETY: `begin_here` gives one to each fibre of such a processor, and fibres stay in their runtime.
            unsafe { stack.resume_with_identity(strand, identities) }
        })
    }

    /// Runs the fibre that `strand` is.
    ///
    /// Inlined into the processor's loop: a switch within a function leaves the CPU's prediction of
    /// returns one off. The loop never returns, so it is the best place for that.
    #[inline(always)]
    pub(crate) fn run(strand: &Strand, processor: &Processor) -> After {
        Record::run_by(strand, processor, |stack| stack.resume(strand))
    }

    #[inline(always)]
    fn run_by(strand: &Strand, processor: &Processor, resume: impl FnOnce(Stack) -> After) -> After {
        // SAFETY: only strands of the kind `FIBRE` come here.
        let record = unsafe { Record::of(strand) };
        let stack = match record.stack() {
            Some(stack) => stack,
            None => match record.begin(processor) {
                Some(stack) => stack,
                None => return After::Declined,
            },
        };
        let after = resume(stack);
        if after == After::Finished {
            record.end(processor, stack);
        }
        after
    }

    /// Begins the fibre: takes a stack, and binds the fibre if it does not migrate. Returns `None` if
    /// the fibre is to begin elsewhere.
    #[inline(never)]
    fn begin(&self, processor: &Processor) -> Option<Stack> {
        processor.takes_in(self.strand()).then(|| self.begin_here(processor))
    }

    /// As [`begin`](Record::begin), on this processor in any case.
    pub(super) fn begin_here(&self, processor: &Processor) -> Stack {
        let stack = processor.stacks().take(self.class());
        if high_water::is_recording() && high_water::begin(self.spawned_at, self.class()) {
            self.head.is_measured().set(true);
            stack.forget_use();
        }
        stack.begin::<Record>(self.strand(), processor.identities().map(Identities::take));
        self.set_stack(Some(stack));
        let spawned_at = std::ptr::from_ref(self.spawned_at).addr() as u64;
        processor.note_strand(Event::Began, self.strand(), spawned_at, self.id().get());
        self.head.bind_for_life(processor.post(), processor.is_migrating());
        stack
    }

    fn end(&self, processor: &Processor, stack: Stack) {
        // std does not notice a panic of a hook that has been suspended.
        if thread::panicking() {
            crate::base::fatal("a panic hook panicked after it had blocked");
        }
        self.set_stack(None);
        if self.head.is_measured().get() {
            high_water::note(self.spawned_at, self.class(), stack.used());
        }
        if let Some(identities) = processor.identities() {
            // SAFETY: as in `run_with_identity`.
            identities.put(unsafe { stack.identity() });
        }
        processor.stacks().put(self.class(), stack);
        self.strand().unbind(u8::MAX);
    }

    fn execute(&self) {
        let libc = processor::with_current(|processor| processor?.identities().map(Identities::libc));
        libc.into_iter().for_each(identity::begin);
        // SAFETY: `create` paired this record with its types.
        unsafe { (self.typed.execute)(self) };
        self.locals.clear();
        libc.into_iter().for_each(identity::end);
        match self.join().complete() {
            Completed::Kept => {}
            Completed::Unwanted => self.drop_result(),
            Completed::Wake(waiter) => processor::with_current(|processor| {
                let processor = processor.expect("fibres run on processors");
                processor.owe_signal(waiter);
            }),
        }
        if let Some(scope) = &self.scope {
            scope.one_finished();
        }
    }

    /// Gives up the join handle's right to the result.
    pub(crate) fn detach(&self) {
        match self.join().detach() {
            Detached::Running => {}
            Detached::Done => self.drop_result(),
        }
    }

    /// Drops the result. If its destructor panics, nobody can be told: the process ends, as with
    /// std's threads.
    fn drop_result(&self) {
        // SAFETY: the result is there, and the join word made it ours.
        let clear = AssertUnwindSafe(|| unsafe { (self.typed.clear)(self) });
        if catch_unwind(clear).is_err() {
            crate::base::fatal("a fibre's result panicked when it was dropped");
        }
    }

    /// # Safety
    /// The strand is a fibre's, and no reference to it is left.
    unsafe fn free(strand: NonNull<Strand>) {
        // SAFETY: by the contract.
        let free = unsafe { Record::of(strand.as_ref()) }.typed.free;
        // SAFETY: by the contract.
        unsafe { free(strand) };
    }
}

/// The code that runs on a fibre's stack.
impl Entry for Record {
    fn execute(strand: &Strand) {
        // SAFETY: `begin` was given a fibre's strand.
        unsafe { Record::of(strand) }.execute();
    }
}

impl<F: FnOnce() -> T, T> Allocation<F, T> {
    /// Returns the place of the closure or the result.
    ///
    /// # Safety
    /// `record` is at the start of one of these.
    unsafe fn stage(record: &Record) -> *mut Stage<F, T> {
        let allocation = container::<Self>(NonNull::from(record.strand())).as_ptr();
        // SAFETY: by the contract; `record` is the first field.
        UnsafeCell::raw_get(unsafe { &raw const (*allocation).stage })
    }

    /// # Safety
    /// See [`Typed::execute`].
    unsafe fn execute(record: &Record) {
        // SAFETY: by the contract.
        let stage = unsafe { Self::stage(record) };
        // SAFETY: until `Join::complete` the stage is the fibre's own.
        let Stage::Closure(closure) = (unsafe { stage.replace(Stage::Empty) }) else {
            crate::base::fatal("a fibre began twice");
        };
        let result = catch_unwind(AssertUnwindSafe(closure));
        if let (Err(_), Some(scope)) = (&result, &record.scope) {
            scope.one_panicked();
        }
        // SAFETY: as above.
        unsafe { stage.write(Stage::Result(result)) };
    }

    /// # Safety
    /// See [`Typed::clear`].
    unsafe fn clear(record: &Record) {
        // SAFETY: by the contract.
        let stage = unsafe { Self::stage(record) };
        // SAFETY: by the contract nobody else uses the stage.
        drop(unsafe { stage.replace(Stage::Empty) });
    }

    /// # Safety
    /// See [`Typed::free`].
    #[inline]
    unsafe fn free(strand: NonNull<Strand>) {
        let allocation = container::<Self>(strand);
        // SAFETY: `create` made it, and no reference is left.
        unsafe { allocation.drop_in_place() };
        // SAFETY: as above; the layout is the one that it was taken with.
        unsafe { put_record(allocation.cast(), Layout::new::<Self>()) };
    }
}

/// Takes the result of a fibre whose closure's type is not known: a function that knows the type finds
/// the result.
pub(crate) struct ResultOf<T> {
    take: unsafe fn(&Record) -> Option<thread::Result<T>>,
}

impl<T> Clone for ResultOf<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ResultOf<T> {}

impl<T> ResultOf<T> {
    pub(crate) fn new<F: FnOnce() -> T>() -> Self {
        /// # Safety
        /// `record` was created with these types, and its result is the caller's.
        unsafe fn take<F: FnOnce() -> T, T>(record: &Record) -> Option<thread::Result<T>> {
            // SAFETY: by the contract.
            let stage = unsafe { Allocation::<F, T>::stage(record) };
            // SAFETY: by the contract.
            match unsafe { stage.replace(Stage::Empty) } {
                Stage::Result(result) => {
                    if let (Err(_), Some(scope)) = (&result, &record.scope) {
                        scope.one_was_looked_at();
                    }
                    Some(result)
                }
                _ => None,
            }
        }
        ResultOf { take: take::<F, T> }
    }

    /// # Safety
    /// The fibre was created with this `T` and the `F` of `new`; its join word
    /// says DONE, and the caller is the holder of its handle.
    pub(crate) unsafe fn take(self, record: &Record) -> Option<thread::Result<T>> {
        // SAFETY: by the contract.
        unsafe { (self.take)(record) }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_fibre_with_a_small_closure_takes_three_lines() {
        fn bytes<F: FnOnce() -> T, T>(_: &F) -> usize {
            size_of::<Allocation<F, T>>()
        }
        let (one, two) = (std::hint::black_box(1usize), std::hint::black_box(2usize));
        assert_eq!(bytes(&move || one + two), 3 * 64);
        assert_eq!(align_of::<Allocation<fn(), ()>>(), 64);
    }
}
