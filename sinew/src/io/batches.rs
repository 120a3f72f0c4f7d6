//! Calls that do not wait, made as a batch: a ring for each processor.
//!
//! A fibre that sends a small piece while others are about to do the same leaves its call with its
//! processor ([`outbox`](crate::processor)), and waits. The processor makes all calls by one call of
//! io_uring. None of them waits (`MSG_DONTWAIT`), so all have been made when the kernel returns:
//! nothing is ever in flight, and there is nothing to cancel. The bytes are borrowed, because the fibre
//! does not go on before its call has been made.
#![allow(unsafe_code)]

use super::engine::Means;
use super::event_scoped::EventScoped;
use crate::processor::cluster::Cluster;
use crate::processor::driver::Driver;
use crate::processor::outbox::{MOST, Taken};
use crate::processor::{Leaving, recorder, with_current};
use crate::sched::{MAX_PROCESSORS, ProcessorId};
use crate::stack::current_stack;
use crate::wait::{self, Party, Signalled};
use crate::wait::{Reason, Why};
use io_uring::{IoUring, opcode, squeue, types};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Larger pieces are sent at once: entering the kernel is a small part of their price.
const LARGEST: usize = 16 * 1024;

const FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// A call that its fibre has left. It lies on the stack of the fibre, which waits until it is made.
struct Call<'a> {
    descriptor: RawFd,
    what: What<'a>,
    /// The kernel's result. Written by the thread that makes the call, before it signals the party.
    result: Cell<i32>,
    /// The fibre.
    party: Cell<Option<Party>>,
}

/// The bytes that a call sends.
#[derive(Clone, Copy)]
enum What<'a> {
    Bytes(&'a [u8]),
    /// A message, and the slices that it points to.
    Message(&'a libc::msghdr, PhantomData<&'a [IoSlice<'a>]>),
}

impl Call<'_> {
    /// Returns the call as the ring takes it.
    fn entry(&self) -> squeue::Entry {
        let descriptor = types::Fd(self.descriptor);
        match self.what {
            What::Bytes(bytes) => {
                opcode::Send::new(descriptor, bytes.as_ptr(), bytes.len() as u32).flags(FLAGS).build()
            }
            What::Message(message, _) => opcode::SendMsg::new(descriptor, message).flags(FLAGS as u32).build(),
        }
    }

    /// Makes the call without a ring.
    #[cold]
    fn make(&self) {
        let count = match self.what {
            // SAFETY: the bytes are valid for reading.
            What::Bytes(bytes) => unsafe { libc::send(self.descriptor, bytes.as_ptr().cast(), bytes.len(), FLAGS) },
            // SAFETY: the message and its slices are valid for reading.
            What::Message(message, _) => unsafe { libc::sendmsg(self.descriptor, message, FLAGS) },
        };
        let error = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        self.result.set(i32::try_from(count).ok().filter(|count| *count >= 0).unwrap_or_else(|| -error()));
    }
}

/// Sends bytes as part of a batch. Returns `None` if the caller has to send them by itself: that is as
/// good, because there is no batch.
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Option<io::Result<usize>> {
    if !is_expected() || bytes.len() > LARGEST { None } else { leave(fd, What::Bytes(bytes)) }
}

/// As [`send`], for bytes that lie in several places.
#[inline]
pub(crate) fn send_slices(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
    if !is_expected() || slices.iter().map(|slice| slice.len()).sum::<usize>() > LARGEST {
        return None;
    }
    // SAFETY: all-zero is a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An `IoSlice` lies in memory as an `iovec`, and the kernel does not write to what it sends.
    message.msg_iov = slices.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = slices.len();
    leave(fd, What::Message(&message, PhantomData))
}

#[inline]
fn is_expected() -> bool {
    with_current(|processor| processor.is_some_and(|processor| processor.expects_calls()))
}

/// Leaves the call with the processor, and waits until it has been made.
#[inline(never)]
fn leave(fd: BorrowedFd<'_>, what: What<'_>) -> Option<io::Result<usize>> {
    // A task cannot wait.
    current_stack()?;
    let call = Call { descriptor: fd.as_raw_fd(), what, result: Cell::new(0), party: Cell::new(None) };
    let mut leaving = Leaving::Alone;
    wait::block(Why::of(Reason::Batch, u64::from(fd.as_raw_fd().cast_unsigned())), |party| {
        call.party.set(Some(party));
        leaving = with_current(|processor| {
            processor.map_or(Leaving::Alone, |processor| processor.leave_call(NonNull::from(&call).cast()))
        });
        leaving == Leaving::Left
    });
    if leaving == Leaving::Alone {
        return None;
    }
    let result = call.result.get();
    Some(usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result)))
}

/// The rings of the processors.
pub(crate) struct Batches {
    is_on: bool,
    /// By processor number.
    rings: Box<[Mutex<Ring>]>,
    calls: AtomicU64,
    batches: AtomicU64,
}

/// The calls that a cluster has made as batches; [`Cluster::batched`] returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batched {
    /// The number of calls.
    pub calls: u64,
    /// The number of batches that they were made in.
    pub batches: u64,
}

impl Cluster {
    /// Returns how many calls of sockets the cluster has made as batches, by io_uring.
    pub fn batched(&self) -> Batched {
        let batches = self.shared().drivers().get::<Batches>();
        Batched { calls: batches.calls.load(Relaxed), batches: batches.batches.load(Relaxed) }
    }
}

/// The ring of a processor.
enum Ring {
    /// It is made when there is the first batch.
    Unmade,
    Made(Box<EventScoped<IoUring>>),
    /// The kernel refuses it.
    Refused,
}

impl Batches {
    pub(crate) fn new(means: Means) -> Batches {
        let count = if means.batches() { MAX_PROCESSORS } else { 0 };
        let rings = (0..count).map(|_| Mutex::new(Ring::Unmade)).collect();
        Batches { is_on: means.batches(), rings, calls: AtomicU64::new(0), batches: AtomicU64::new(0) }
    }
}

impl Driver for Batches {
    fn takes_calls(&self) -> bool {
        self.is_on
    }

    fn carry_out(&self, processor: ProcessorId, taken: Taken<'_>, own: Option<NonNull<()>>) -> bool {
        let mut calls: [Option<&Call<'_>>; MOST] = [None; MOST];
        let mut count = 0;
        for (place, call) in calls.iter_mut().zip(taken.calls().chain(own)) {
            // SAFETY: all calls are left by `leave`, so it is the address of one, which stays there until
            // its party is signalled. Only this thread has taken it.
            *place = Some(unsafe { call.cast::<Call<'_>>().as_ref() });
            count += 1;
        }
        let calls = &calls[..count];
        let mut ring = self.rings[processor.index()].lock().unwrap_or_else(PoisonError::into_inner);
        let made = ring.make(calls);
        recorder::note_called(made);
        let is_good = matches!(*ring, Ring::Made(_));
        drop(ring);
        if made > 0 {
            self.calls.fetch_add(made as u64, Relaxed);
            self.batches.fetch_add(1, Relaxed);
        }
        calls[made..].iter().flatten().for_each(|call| call.make());
        // The strand that has `own` runs: it is not signalled.
        let left = &calls[..count - usize::from(own.is_some())];
        let mut signalled = Signalled::new();
        for call in left.iter().flatten() {
            let party = call.party.get().expect("a call that is left has a party");
            signalled.add(Party::signal_owed_later(party.owed()));
        }
        drop(taken);
        signalled.go_on();
        is_good
    }
}

impl Ring {
    /// Makes the calls. Returns the number of calls that were made, from the first one on: fewer if the
    /// kernel refuses the rest.
    fn make(&mut self, calls: &[Option<&Call<'_>>]) -> usize {
        if let Ring::Unmade = self {
            *self = Ring::new();
        }
        let Ring::Made(ring) = self else { return 0 };
        let Ok(ring) = ring.get_mut() else { return 0 };
        let mut queue = ring.submission();
        for (number, call) in calls.iter().flatten().enumerate() {
            // SAFETY: what the call points to is valid until the call has been made, and this thread sees
            // to it that it is, or that the ring is gone.
            let pushed = unsafe { queue.push(&call.entry().user_data(number as u64)) };
            debug_assert!(pushed.is_ok(), "nothing is ever left in the queue, which has room for all");
        }
        drop(queue);
        let (made, error) = submit(ring, calls.len());
        collect(ring, calls, made);
        if let Some(error) = error {
            // The rest lies in the queue. It must not be found there later, so the ring goes.
            *self = if is_passing(&error) { Ring::Unmade } else { Ring::Refused };
        }
        made
    }

    #[cold]
    fn new() -> Ring {
        let entries = MOST.next_power_of_two() as u32;
        // With this flag one call that fails does not keep the others from being made. Older kernels do
        // not know it.
        let made = IoUring::builder().dontfork().setup_submit_all().build(entries);
        let made = made.or_else(|_| IoUring::builder().dontfork().build(entries));
        match made {
            Ok(ring) => Ring::Made(Box::new(EventScoped::new(ring))),
            Err(error) if is_passing(&error) => Ring::Unmade,
            Err(_) => Ring::Refused,
        }
    }
}

/// Says whether the kernel may have another answer later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}

/// Passes all calls in the queue to the kernel. Returns the number of calls that it has taken, and the error
/// if it has not taken all.
fn submit(ring: &IoUring, count: usize) -> (usize, Option<io::Error>) {
    let mut taken = 0;
    while taken < count {
        match ring.submit() {
            Ok(0) => return (taken, Some(io::Error::from_raw_os_error(libc::EBUSY))),
            Ok(more) => taken += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Some(error)),
        }
    }
    (taken, None)
}

/// Collects the results of the first `count` calls.
fn collect(ring: &mut IoUring, calls: &[Option<&Call<'_>>], count: usize) {
    let mut collected = 0;
    while collected < count {
        for result in ring.completion() {
            if let Some(Some(call)) = calls.get(result.user_data() as usize) {
                call.result.set(result.result());
                collected += 1;
            }
        }
        if collected < count {
            // No call waits, so this does not happen. But the kernel must not keep a call whose fibre goes
            // on. If it refuses to be waited for, there is only its word in memory.
            let _ = ring.submit_and_wait(count - collected);
        }
    }
}
