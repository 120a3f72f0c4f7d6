//! The reason for which a strand waits, and the holder of a lock: for readers of memory.
//!
//! A strand that stops leaves a word in its header, in the link that only a queue would use. It says why the strand has
//! stopped, and for which object. The processor adds the time when it commits the stop. So a wait costs three
//! instructions more, and a strand no memory.

use super::stackful::Stackful;
use crate::base::describe::Entry;
use crate::base::kernel;
use crate::processor::with_current;
use crate::stack::current_stack;
use crate::strand::Strand;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bits of the word that the object has: an address, or a number.
const OBJECT_BITS: u32 = 56;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The reasons for which strands stop.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Reason {
            $($(#[$doc])* $name = $number,)*
        }

        /// The entries of the description.
        pub(crate) const REASONS: &[Entry] = &[$(Entry::number(concat!("reason.", $text), $number),)*];
    };
}

// A reader knows the names, and not the numbers.
reasons! {
    /// A future that waits in a way of its own.
    Unknown = 0, "unknown";
    Park = 1, "park";
    Sleep = 2, "sleep";
    /// The object of this and the next two is the raw lock.
    Mutex = 3, "mutex";
    Read = 4, "rwlock_read";
    Write = 5, "rwlock_write";
    Condvar = 6, "condvar";
    Semaphore = 7, "semaphore";
    Barrier = 8, "barrier";
    Once = 9, "once";
    WaitGroup = 10, "wait_group";
    Send = 11, "channel_send";
    Receive = 12, "channel_receive";
    Broadcast = 13, "broadcast";
    Watch = 14, "watch";
    Select = 15, "select";
    /// The object of this and the next one is the strand that is joined.
    JoinFibre = 16, "join_fibre";
    JoinTask = 17, "join_task";
    Scope = 18, "scope";
    BlockOn = 19, "block_on";
    /// A call on the pool for blocking calls.
    Blocking = 20, "blocking";
    /// The object of this and the next one is the number of a descriptor.
    Readable = 21, "read";
    Writable = 22, "write";
    /// An operation in the kernel, by io_uring.
    Ring = 23, "ring";
    /// Space in a ring for an operation.
    Room = 24, "room";
    /// The object of this and the next one is the mailbox.
    Ask = 25, "ask";
    Turn = 27, "event";
    /// The end of a runtime.
    Drain = 28, "drain";
    /// A call of the kernel that was left with the processor.
    Batch = 29, "batch";
    Duplex = 30, "duplex";
}

/// The reason for which a strand waits, and the object.
#[derive(Clone, Copy)]
pub(crate) struct Why(u64);

impl Why {
    pub(crate) const UNKNOWN: Why = Why::of(Reason::Unknown, 0);
    pub(crate) const PARK: Why = Why::of(Reason::Park, 0);
    pub(crate) const SLEEP: Why = Why::of(Reason::Sleep, 0);

    /// Makes the reason with the object at this address.
    #[inline(always)]
    pub(crate) fn at<T: ?Sized>(reason: Reason, object: &T) -> Why {
        Why::of(reason, std::ptr::from_ref(object).addr() as u64)
    }

    /// Makes the reason with an object that has a number.
    #[inline(always)]
    pub(crate) const fn of(reason: Reason, object: u64) -> Why {
        Why((reason as u64) << OBJECT_BITS | object)
    }

    /// Leaves the word in a strand. By the strand, before it stops.
    #[inline(always)]
    pub(crate) fn leave_in(self, strand: &Strand) {
        strand.note_wait(self.0);
    }

    /// Leaves the word in the task that runs the caller, if one does. By a future that is about to be pending.
    pub(crate) fn leave_in_task(self) {
        with_current(|processor| {
            if let Some(task) = processor.and_then(|processor| processor.task()) {
                self.leave_in(task);
            }
        });
    }
}

/// The holder of a lock. Readers of memory see the holder between two changes of the word, and nobody while it is being
/// taken or released. Not part of a lock's protocol: so it is never loom's.
#[repr(transparent)]
pub(crate) struct Owner(AtomicU64);

/// The owner is a fibre, and its id. There is no tag, so that an id is the word.
const FIBRE: u64 = 0;
const TASK: u64 = 1;
const THREAD: u64 = 2;

/// The entries of the description.
pub(crate) const OWNERS: &[Entry] = &[
    Entry::number("owner.fibre", FIBRE as usize),
    Entry::number("owner.task", TASK as usize),
    Entry::number("owner.thread", THREAD as usize),
];

impl Owner {
    pub(crate) const fn nobody() -> Owner {
        Owner(AtomicU64::new(0))
    }

    /// Notes that the caller has the lock.
    #[inline(always)]
    pub(crate) fn is_caller(&self) {
        let owner = match current_stack() {
            Some(stack) => Stackful::on(stack).id().get(),
            None => owner_without_stack(),
        };
        self.0.store(owner, Relaxed);
    }

    /// Notes that nobody has the lock. By the holder, before it unlocks.
    #[inline(always)]
    pub(crate) fn is_nobody(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Returns the word for a task or a kernel thread.
#[cold]
#[inline(never)]
fn owner_without_stack() -> u64 {
    thread_local!(static THREAD_ID: Cell<u64> = const { Cell::new(0) });
    let task = with_current(|processor| processor?.task().map(|task| std::ptr::from_ref(task).addr() as u64));
    if let Some(task) = task {
        return TASK << OBJECT_BITS | task;
    }
    // A thread that is ending has no such variable any more.
    let known = THREAD_ID.try_with(|id| {
        if id.get() == 0 {
            id.set(kernel::thread_id() as u64);
        }
        id.get()
    });
    THREAD << OBJECT_BITS | known.unwrap_or_else(|_| kernel::thread_id() as u64)
}
