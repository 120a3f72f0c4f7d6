//! Chains of operations that a program makes by itself.
#![allow(unsafe_code)]

use super::fibre::{Flown, closed, fly, of_result};
use super::files::{ring_here, ring_of_fibre};
use super::flight::Flight;
use super::owned::{Cargo, Foreign, fly_owned};
use super::plan::{Plan, What};
use super::shared::Ring;
use crate::base::Deadline;
use crate::io::limit_error;
use crate::wait::budget;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Operations that a fibre submits together, with borrowed buffers.
///
/// [`submit`](Chain::submit) returns when the kernel has done all of them, so the buffers are free again.
/// The module's documentation has an example.
#[must_use = "a chain does nothing before it is submitted"]
pub struct Chain<'a> {
    operations: Vec<Borrowed<'a>>,
    is_linked: bool,
}

struct Borrowed<'a> {
    what: What,
    fd: Option<BorrowedFd<'a>>,
    buffer: Buffer<'a>,
    offset: Option<u64>,
}

enum Buffer<'a> {
    None,
    Into(&'a mut [u8]),
    From(&'a [u8]),
}

impl Borrowed<'_> {
    fn plan(&mut self) -> Plan {
        match (&mut self.buffer, self.fd) {
            (Buffer::Into(buffer), Some(fd)) => Plan::into(self.what, fd, buffer, self.offset),
            (Buffer::From(bytes), Some(fd)) => Plan::from(self.what, fd, bytes, self.offset),
            (_, fd) => Plan::bare(self.what, fd),
        }
    }
}

impl<'a> Chain<'a> {
    /// Makes an empty chain of independent operations. The kernel does them in any order, or at the same
    /// time.
    pub fn new() -> Chain<'a> {
        Chain { operations: Vec::new(), is_linked: false }
    }

    /// Makes an empty chain of linked operations. The kernel does one after the other. When one fails, or
    /// reads or writes less than it was asked to, the rest is not done, and fails with `ECANCELED`.
    pub fn linked() -> Chain<'a> {
        Chain { operations: Vec::new(), is_linked: true }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn push(&mut self, what: What, fd: Option<BorrowedFd<'a>>, buffer: Buffer<'a>, offset: Option<u64>) -> &mut Self {
        self.operations.push(Borrowed { what, fd, buffer, offset });
        self
    }

    /// Adds a read at the file's own position, or from a stream.
    pub fn read(&mut self, from: &'a impl AsFd, buffer: &'a mut [u8]) -> &mut Self {
        self.push(What::Read, Some(from.as_fd()), Buffer::Into(buffer), None)
    }

    /// Adds a read at `offset`.
    pub fn read_at(&mut self, from: &'a impl AsFd, buffer: &'a mut [u8], offset: u64) -> &mut Self {
        self.push(What::Read, Some(from.as_fd()), Buffer::Into(buffer), Some(offset))
    }

    /// Adds a write at the file's own position, or to a stream.
    pub fn write(&mut self, to: &'a impl AsFd, bytes: &'a [u8]) -> &mut Self {
        self.push(What::Write, Some(to.as_fd()), Buffer::From(bytes), None)
    }

    /// Adds a write at `offset`.
    pub fn write_at(&mut self, to: &'a impl AsFd, bytes: &'a [u8], offset: u64) -> &mut Self {
        self.push(What::Write, Some(to.as_fd()), Buffer::From(bytes), Some(offset))
    }

    /// Adds a receive from a socket.
    pub fn recv(&mut self, from: &'a impl AsFd, buffer: &'a mut [u8]) -> &mut Self {
        self.push(What::Receive, Some(from.as_fd()), Buffer::Into(buffer), None)
    }

    /// Adds a send to a socket.
    pub fn send(&mut self, to: &'a impl AsFd, bytes: &'a [u8]) -> &mut Self {
        self.push(What::Send, Some(to.as_fd()), Buffer::From(bytes), None)
    }

    /// Adds a wait until the file's bytes and metadata are on the device.
    pub fn sync_all(&mut self, file: &'a impl AsFd) -> &mut Self {
        self.push(What::SyncAll, Some(file.as_fd()), Buffer::None, None)
    }

    /// Adds a wait until the file's bytes are on the device.
    pub fn sync_data(&mut self, file: &'a impl AsFd) -> &mut Self {
        self.push(What::SyncData, Some(file.as_fd()), Buffer::None, None)
    }

    /// Adds a wait until there is something to read. The result is the number of `poll`'s flags.
    pub fn readable(&mut self, from: &'a impl AsFd) -> &mut Self {
        self.push(What::Readable, Some(from.as_fd()), Buffer::None, None)
    }

    /// Adds a wait until there is room to write. The result is the number of `poll`'s flags.
    pub fn writable(&mut self, to: &'a impl AsFd) -> &mut Self {
        self.push(What::Writable, Some(to.as_fd()), Buffer::None, None)
    }

    /// Adds an operation that does nothing.
    pub fn nop(&mut self) -> &mut Self {
        self.push(What::Nothing, None, Buffer::None, None)
    }

    /// Submits the operations and waits until the kernel has done all of them. Returns the result of each,
    /// in their order.
    ///
    /// If the fibre is [cancelled](crate::cancel), or a time limit that it carries ends, the kernel is
    /// told to cancel the operations, and the fibre waits for its answer. An operation that was done all
    /// the same has its usual result. The others fail with the error of a wait that was cancelled.
    ///
    /// # Errors
    /// Nothing was submitted, because
    /// - there is no ring for the caller (`Unsupported`, see the [module](crate::io::ring));
    /// - the chain is longer than the ring (`InvalidInput`);
    /// - the fibre was cancelled, or the time was up, while it waited for room in the ring.
    ///
    /// # Panics
    /// In a [task](crate::task), whose processor it would block: it uses an [`OwnedChain`].
    pub fn submit(self) -> io::Result<Vec<io::Result<usize>>> {
        self.submit_until(Deadline::NEVER)
    }

    /// As [`submit`](Chain::submit), for no longer than `timeout`. Operations that the kernel has not
    /// done by then fail with `WouldBlock`.
    ///
    /// # Errors
    /// As [`submit`](Chain::submit).
    ///
    /// # Panics
    /// As [`submit`](Chain::submit).
    pub fn submit_timeout(self, timeout: Duration) -> io::Result<Vec<io::Result<usize>>> {
        self.submit_until(Deadline::after(timeout))
    }

    /// As [`submit_timeout`](Chain::submit_timeout), until `deadline`.
    ///
    /// # Errors
    /// As [`submit`](Chain::submit).
    ///
    /// # Panics
    /// As [`submit`](Chain::submit).
    pub fn submit_deadline(self, deadline: Instant) -> io::Result<Vec<io::Result<usize>>> {
        self.submit_until(Deadline::at(deadline))
    }

    fn submit_until(mut self, deadline: Deadline) -> io::Result<Vec<io::Result<usize>>> {
        let ring = ring_of_fibre().ok_or_else(no_ring)?;
        check_length(&ring, self.len())?;
        budget::spend(budget::KERNEL_CALL);
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let flight = Flight::new(self.len(), self.is_linked);
        // SAFETY: the buffers are borrowed by this chain, which ends here.
        match unsafe { fly(&ring, &flight, |number| self.operations[number].plan(), deadline) } {
            Flown::Landed(ended) => Ok(flight.results().map(|result| of_result(result, ended, deadline)).collect()),
            Flown::Grounded(outcome) => Err(limit_error(outcome, deadline)),
            Flown::Closed => Err(closed()),
        }
    }
}

impl Default for Chain<'_> {
    fn default() -> Self {
        Chain::new()
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("operations", &self.len()).field("is_linked", &self.is_linked).finish()
    }
}

/// As [`Chain`], for tasks: the operations own their buffers and descriptors.
///
/// A descriptor is anything that may be sent to another thread and has `as_fd`: a file, or an `Arc` of one.
///
/// ```
/// use sinew::io::ring::OwnedChain;
/// use std::io::ErrorKind;
/// use std::sync::Arc;
///
/// sinew::run(|| {
///     let task = sinew::task::spawn(async {
///         let file = Arc::new(std::fs::File::open("/proc/self/comm").unwrap());
///         let mut chain = OwnedChain::new();
///         chain.read_at(Arc::clone(&file), vec![0; 64], 0);
///         chain.submit_async().await
///     });
///     match task.join().unwrap() {
///         Ok(done) => {
///             let (result, buffer) = &done[0];
///             let count = *result.as_ref().unwrap();
///             assert!(buffer[..count].ends_with(b"\n"));
///         }
///         // The kernel has no io_uring, or does not permit it.
///         Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
///     }
/// });
/// ```
#[must_use = "a chain does nothing before it is submitted"]
pub struct OwnedChain {
    cargo: Vec<Cargo>,
    is_linked: bool,
}

impl OwnedChain {
    /// As [`Chain::new`].
    pub fn new() -> OwnedChain {
        OwnedChain { cargo: Vec::new(), is_linked: false }
    }

    /// As [`Chain::linked`].
    pub fn linked() -> OwnedChain {
        OwnedChain { cargo: Vec::new(), is_linked: true }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.cargo.len()
    }

    /// Returns whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.cargo.is_empty()
    }

    fn push(&mut self, what: What, fd: impl AsFd + Send + 'static, buffer: Vec<u8>, offset: Option<u64>) -> &mut Self {
        self.cargo.push(Cargo { what, descriptor: Some(Box::new(Foreign(fd))), buffer, offset });
        self
    }

    /// Adds a read at the file's own position, or from a stream. It fills the buffer up to its length.
    pub fn read(&mut self, from: impl AsFd + Send + 'static, buffer: Vec<u8>) -> &mut Self {
        self.push(What::Read, from, buffer, None)
    }

    /// Adds a read at `offset`. It fills the buffer up to its length.
    pub fn read_at(&mut self, from: impl AsFd + Send + 'static, buffer: Vec<u8>, offset: u64) -> &mut Self {
        self.push(What::Read, from, buffer, Some(offset))
    }

    /// As [`Chain::write`].
    pub fn write(&mut self, to: impl AsFd + Send + 'static, bytes: Vec<u8>) -> &mut Self {
        self.push(What::Write, to, bytes, None)
    }

    /// As [`Chain::write_at`].
    pub fn write_at(&mut self, to: impl AsFd + Send + 'static, bytes: Vec<u8>, offset: u64) -> &mut Self {
        self.push(What::Write, to, bytes, Some(offset))
    }

    /// Adds a receive from a socket. It fills the buffer up to its length.
    pub fn recv(&mut self, from: impl AsFd + Send + 'static, buffer: Vec<u8>) -> &mut Self {
        self.push(What::Receive, from, buffer, None)
    }

    /// As [`Chain::send`].
    pub fn send(&mut self, to: impl AsFd + Send + 'static, bytes: Vec<u8>) -> &mut Self {
        self.push(What::Send, to, bytes, None)
    }

    /// As [`Chain::sync_all`].
    pub fn sync_all(&mut self, file: impl AsFd + Send + 'static) -> &mut Self {
        self.push(What::SyncAll, file, Vec::new(), None)
    }

    /// As [`Chain::sync_data`].
    pub fn sync_data(&mut self, file: impl AsFd + Send + 'static) -> &mut Self {
        self.push(What::SyncData, file, Vec::new(), None)
    }

    /// As [`Chain::readable`].
    pub fn readable(&mut self, from: impl AsFd + Send + 'static) -> &mut Self {
        self.push(What::Readable, from, Vec::new(), None)
    }

    /// As [`Chain::writable`].
    pub fn writable(&mut self, to: impl AsFd + Send + 'static) -> &mut Self {
        self.push(What::Writable, to, Vec::new(), None)
    }

    /// As [`Chain::nop`].
    pub fn nop(&mut self) -> &mut Self {
        self.cargo.push(Cargo { what: What::Nothing, descriptor: None, buffer: Vec::new(), offset: None });
        self
    }

    /// Submits the operations when the future is first polled. Returns the result and the buffer of each,
    /// in their order, when the kernel has done all of them. The buffer of an operation that has none is
    /// empty.
    ///
    /// If the future is dropped before that, the kernel is told to cancel the operations. It may have
    /// done some of them. Their buffers and descriptors are kept until the kernel is done with them.
    ///
    /// # Errors
    /// As [`Chain::submit`]; or the runtime has ended. The buffers are dropped.
    pub async fn submit_async(self) -> io::Result<Vec<(io::Result<usize>, Vec<u8>)>> {
        let ring = ring_here().ok_or_else(no_ring)?;
        check_length(&ring, self.len())?;
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let flown = fly_owned(ring, self.cargo, self.is_linked).await?;
        let done = |(cargo, result): (Cargo, _)| (of_result(result, None, Deadline::NEVER), cargo.buffer);
        Ok(flown.into_iter().map(done).collect())
    }
}

impl Default for OwnedChain {
    fn default() -> Self {
        OwnedChain::new()
    }
}

impl fmt::Debug for OwnedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedChain").field("operations", &self.len()).field("is_linked", &self.is_linked).finish()
    }
}

/// Returns the largest number of operations of a chain that the caller submits; `None` where there is no
/// ring.
///
/// ```
/// assert_eq!(sinew::io::ring::longest(), None);
/// sinew::run(|| println!("chains have at most {:?} operations", sinew::io::ring::longest()));
/// ```
pub fn longest() -> Option<usize> {
    ring_here().map(|ring| ring.operations())
}

fn no_ring() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "there is no ring of io_uring here")
}

fn check_length(ring: &Arc<Ring>, length: usize) -> io::Result<()> {
    let longest = ring.operations();
    if length > longest {
        let what = format!("a chain of {length} operations does not fit a ring of {longest}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(())
}
