//! The kernel's two queues of a ring: entries go in, completions come out.
//!
//! A thread that submits holds a lock, pushes its entries and enters the kernel at once. So the
//! submission queue is empty whenever the lock is free. A thread that reaps holds another lock while it
//! copies completions.
#![allow(unsafe_code)]

use super::super::event_scope::{OtherScope, ScopeId};
use super::super::event_scoped::EventScoped;
use crate::base::fork;
use crate::base::spin::{SpinLock, nap};
use io_uring::squeue::Entry;
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest numbers of kernel threads that serve one submitting thread: for files, and for all other
/// descriptors. Unmeasured: a cold read of a file rarely needs one.
const WORKERS: [u32; 2] = [16, 64];

/// The number of completions that are copied under the lock at a time.
const BATCH: usize = 32;

/// A submission that the kernel refuses for lack of memory is tried this number of times, with naps of
/// 100 µs between. Then the ring is given up. Unmeasured.
const MOST_TRIES: u32 = 200;

/// A ring of io_uring.
pub(crate) struct Queues {
    ring: EventScoped<IoUring>,
    submitting: Mutex<Submitting>,
    /// Held by the thread that takes completions out.
    reaping: SpinLock<()>,
}

struct Submitting {
    /// The error with which the kernel has refused entries. They are still in the queue, so no thread
    /// submits any more.
    refusal: Option<i32>,
    /// The user data of the entries that are being submitted.
    tags: Vec<u64>,
}

/// The end of an entry: the kernel has completed it, or has refused it and will never see it. There is
/// one for each entry that was submitted.
#[must_use]
pub(crate) struct Landing {
    user_data: u64,
    result: i32,
}

impl Landing {
    pub(crate) fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Returns the kernel's result: the negative number of an error, or what the operation returns.
    pub(crate) fn result(&self) -> i32 {
        self.result
    }

    /// Makes a landing without a kernel.
    ///
    /// # Safety
    /// The user data are those of an entry for which there is no other landing.
    #[cfg(all(test, sinew_loom))]
    pub(crate) unsafe fn for_model(user_data: u64, result: i32) -> Landing {
        Landing { user_data, result }
    }
}

impl Queues {
    /// Makes a ring with this number of entries, and room for the same number of completions. Enters
    /// the kernel once: a sandbox may permit a ring and forbid its use.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(entries: u32) -> io::Result<Queues> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(entries);
        // Older kernels stop at the first entry that is invalid.
        let made = builder.clone().setup_submit_all().build(entries).or_else(|_| builder.build(entries));
        let mut ring = made?;
        if !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // An older kernel has bounds of its own.
        let _ = ring.submitter().register_iowq_max_workers(&mut WORKERS.clone());
        // SAFETY: the entry has no pointers.
        unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        if ring.completion().next().is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Queues {
            ring: EventScoped::new(ring),
            submitting: Mutex::new(Submitting { refusal: None, tags: Vec::with_capacity(entries as usize) }),
            reaping: SpinLock::new(()),
        })
    }

    pub(crate) fn scope(&self) -> ScopeId {
        self.ring.scope()
    }

    /// Returns the descriptor, which is ready to be read while there are completions.
    ///
    /// # Errors
    /// If the caller is in another event scope.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>, OtherScope> {
        let ring = self.ring.get()?;
        // SAFETY: the descriptor is open as long as the ring, which is borrowed.
        Ok(unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) })
    }

    fn submitting(&self) -> MutexGuard<'_, Submitting> {
        self.submitting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the kernel has refused entries for good.
    pub(crate) fn has_refused(&self) -> bool {
        self.submitting().refusal.is_some()
    }

    /// Submits entries, of which there are never more in the ring than it was made for. Adds to
    /// `landed` those that the kernel refuses.
    ///
    /// # Errors
    /// If the caller is in another event scope: then nothing has been submitted.
    ///
    /// # Safety
    /// What an entry points at stays as it is until the entry has landed.
    pub(crate) unsafe fn submit(
        &self,
        entries: impl IntoIterator<Item = Entry>,
        landed: &mut Vec<Landing>,
    ) -> Result<(), OtherScope> {
        fork::check();
        let ring = self.ring.get()?;
        let mut submitting = self.submitting();
        let Submitting { refusal, tags } = &mut *submitting;
        tags.clear();
        // SAFETY: the lock lets one thread at a time use the queue.
        let mut queue = unsafe { ring.submission_shared() };
        for entry in entries {
            tags.push(entry.get_user_data());
            if refusal.is_none() {
                // SAFETY: the caller promises that what the entry points at stays.
                unsafe { queue.push(&entry) }.expect("the ring was made for that number of entries");
            }
        }
        drop(queue);
        let (mut submitted, mut tries) = (0, 0);
        while refusal.is_none() && submitted < tags.len() {
            let error = match ring.submitter().submit() {
                Ok(0) => libc::EAGAIN,
                Ok(count) => {
                    submitted += count;
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            match error {
                libc::EINTR => {}
                // The kernel lacks memory, or keeps back completions.
                libc::EAGAIN | libc::EBUSY if tries < MOST_TRIES => {
                    tries += 1;
                    self.reap(|landing| landed.push(landing));
                    nap();
                }
                error => *refusal = Some(error),
            }
        }
        if let Some(error) = *refusal {
            let refused = tags.drain(submitted..);
            landed.extend(refused.map(|user_data| Landing { user_data, result: -error }));
        }
        Ok(())
    }

    /// Takes the completions out that are there, and calls `land` with each. Makes no system call.
    pub(crate) fn reap(&self, mut land: impl FnMut(Landing)) {
        fork::check();
        let ring = self.ring.peek();
        let mut reaped = 0;
        loop {
            let mut room = [const { MaybeUninit::<cqueue::Entry>::uninit() }; BATCH];
            let reaping = self.reaping.lock();
            // SAFETY: the lock lets one thread at a time use the queue.
            let completions = unsafe { ring.completion_shared() }.fill(&mut room);
            drop(reaping);
            for completion in completions.iter() {
                land(Landing { user_data: completion.user_data(), result: completion.result() });
            }
            reaped += completions.len();
            if completions.len() < BATCH && (reaped < ring.params().cq_entries() as usize || !self.flush()) {
                return;
            }
            if completions.len() < BATCH {
                reaped = 0;
            }
        }
    }

    /// Asks the kernel for completions that it kept back because the queue was full. Returns whether
    /// it was asked.
    #[cold]
    fn flush(&self) -> bool {
        let Ok(ring) = self.ring.get() else { return false };
        // SAFETY: there is no argument.
        unsafe { ring.submitter().enter::<libc::sigset_t>(0, 0, EnterFlags::GETEVENTS.bits(), None) }.is_ok()
    }

    /// Waits until there are completions, or for 10 ms: another thread may have reaped them.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        match poll(&mut [PollFd::from_borrowed_fd(self.fd()?, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use crate::io::Engine;

    fn submit(queues: &Queues, numbers: std::ops::Range<u64>) -> Vec<Landing> {
        let mut landed = Vec::new();
        let entries = numbers.map(|number| opcode::Nop::new().build().user_data(number));
        // SAFETY: the entries have no pointers.
        unsafe { queues.submit(entries, &mut landed) }.unwrap();
        landed
    }

    #[test]
    fn completions_that_the_kernel_kept_back_are_reaped() {
        if !Engine::Ring.means().files() {
            return;
        }
        let queues = Queues::new(4).unwrap();
        for round in 0..4 {
            assert!(submit(&queues, 4 * round..4 * round + 4).is_empty());
        }
        let mut landed = Vec::new();
        queues.reap(|landing| landed.push(landing.user_data()));
        assert_eq!(landed, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn after_a_refusal_every_entry_lands_with_its_error() {
        if !Engine::Ring.means().files() {
            return;
        }
        let queues = Queues::new(4).unwrap();
        queues.submitting().refusal = Some(libc::EPERM);
        let landed = submit(&queues, 1..4);
        let ends: Vec<_> = landed.iter().map(|landing| (landing.user_data(), landing.result())).collect();
        assert_eq!(ends, [(1, -libc::EPERM), (2, -libc::EPERM), (3, -libc::EPERM)]);
    }
}
